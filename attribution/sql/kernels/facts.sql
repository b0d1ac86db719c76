-- facts: one row a (segment, device, kernel name, replayed or not, launch known or not): all that
-- needs no order in time.
--   kernels, blocks   kernels; graphs traced as one block (not kernels, but time)
--   kernel_sum_ns the part of sum_ns that is kernels
--   sum_ns, max_ns, under_10us   summed, longest [ns], count of kernels below 10 us
--   alone_ns      summed time of kernels that overlap nothing: their part of any union [ns]
--   start_ns, end_ns   first start, last end [ns]
--   unlaunched, unlaunched_ns   kernels without a launch in the trace, and their time [ns]
-- reads: kernel_segments
CREATE OR REPLACE TEMP TABLE facts AS
WITH summed AS (
    SELECT
        segment,
        device,
        name,
        graph_node > 0 AS replayed,
        launch < 0 AS lost,
        is_block,
        count(*) AS n,
        CAST(sum(duration_ns) AS BIGINT) AS sum_ns,
        max(duration_ns) AS max_ns,
        CAST(sum(CAST(duration_ns < 10000 AS INTEGER)) AS BIGINT) AS under_10us,
        CAST(sum(if(crowded, 0, duration_ns)) AS BIGINT) AS alone_ns,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM kernel_segments
    GROUP BY ALL
)
SELECT
    segment,
    device,
    name,
    replayed,
    if(is_block, 0, n) AS kernels,
    if(is_block, n, 0) AS blocks,
    sum_ns,
    if(is_block, 0, sum_ns) AS kernel_sum_ns,
    max_ns,
    if(is_block, 0, under_10us) AS under_10us,
    alone_ns,
    start_ns,
    end_ns,
    if(lost AND NOT is_block, n, 0) AS unlaunched,
    if(lost AND NOT is_block, sum_ns, 0) AS unlaunched_ns
FROM summed;
