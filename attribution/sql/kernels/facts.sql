-- facts: one row a (segment, device, kernel name, replayed or not): all that needs no order in time.
--   blocks        graphs traced as one block (not kernels, but time)
--   kernel_sum_ns the part of sum_ns that is kernels
--   kernels, sum_ns, max_ns, under_10us   count, summed, longest [ns], count below 10 us
--   alone_ns      summed time of kernels that overlap nothing: their part of any union [ns]
--   start_ns, end_ns   first start, last end [ns]; unlaunched, layered: kernels without a launch
--                 in the trace, with a known layer; unlaunched_ns: the time of the former [ns]
-- reads: kernel_rows
CREATE OR REPLACE TEMP TABLE facts AS
SELECT
    segment,
    device,
    name,
    graph_node > 0 AS replayed,
    count(*) FILTER (NOT is_block) AS kernels,
    count(*) FILTER (is_block) AS blocks,
    CAST(sum(duration_ns) AS BIGINT) AS sum_ns,
    CAST(coalesce(sum(duration_ns) FILTER (NOT is_block), 0) AS BIGINT) AS kernel_sum_ns,
    max(duration_ns) AS max_ns,
    count(*) FILTER (duration_ns < 10000 AND NOT is_block) AS under_10us,
    CAST(coalesce(sum(duration_ns) FILTER (NOT crowded), 0) AS BIGINT) AS alone_ns,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns,
    count(*) FILTER (launch < 0 AND NOT is_block) AS unlaunched,
    CAST(coalesce(sum(duration_ns) FILTER (launch < 0 AND NOT is_block), 0) AS BIGINT)
        AS unlaunched_ns,
    count(*) FILTER (layer >= 0) AS layered
FROM kernel_rows
GROUP BY ALL;
