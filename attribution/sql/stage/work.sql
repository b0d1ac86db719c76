-- work: one row a launch (API call) that caused device work. Profile-independent, so it is staged.
--   launch        row number in api
--   process       process index (of the device rows)
--   kernels       kernel executions
--   gpu_ns        summed kernel time [ns]; for graphs traced as one block, the time of the block
--   gpu_start_ns, gpu_end_ns   first start, last end on the device [ns]
--   graph         identity of the replayed graph (its lowest node id, or its exec id); 0 if eager
--   print         fingerprint: sum over kernels of a hash of (name, grid)
--   print_names   the same over names alone
--   blocks        thread blocks launched
--   copies_h2d    host-to-device copies; memops: all memcpy and memset rows; blocks_traced: graphs
-- reads: kernel_work, ops
CREATE OR REPLACE TEMP VIEW work AS
WITH by_op AS (
    SELECT
        launch,
        any_value(process) AS process,
        count(*) FILTER (kind <> 'graph') AS memops,
        count(*) FILTER (kind = 'memcpy' AND copy_kind = getvariable('host_to_device')) AS copies_h2d,
        count(*) FILTER (kind = 'graph') AS blocks_traced,
        CAST(coalesce(sum(end_ns - start_ns) FILTER (kind = 'graph'), 0) AS BIGINT) AS block_ns,
        min(start_ns) AS op_start_ns,
        max(end_ns) AS op_end_ns,
        coalesce(max(graph_exec) FILTER (kind = 'graph'), 0) AS graph_exec
    FROM ops
    WHERE launch >= 0
    GROUP BY launch
)
SELECT
    launch,
    coalesce(k.process, o.process) AS process,
    coalesce(k.kernels, 0) AS kernels,
    -- both levels present: the nodes count, the block would count them again
    CASE WHEN coalesce(k.kernels, 0) > 0 THEN k.gpu_ns ELSE coalesce(o.block_ns, 0) END AS gpu_ns,
    coalesce(k.gpu_start_ns, o.op_start_ns) AS gpu_start_ns,
    coalesce(k.gpu_end_ns, o.op_end_ns) AS gpu_end_ns,
    CASE WHEN coalesce(k.graph, 0) > 0 THEN k.graph ELSE coalesce(o.graph_exec, 0) END AS graph,
    coalesce(k.print, 0) AS print,
    coalesce(k.print_names, 0) AS print_names,
    coalesce(k.blocks, 0) AS blocks,
    coalesce(o.memops, 0) AS memops,
    coalesce(o.copies_h2d, 0) AS copies_h2d,
    coalesce(o.blocks_traced, 0) AS blocks_traced
FROM kernel_work AS k
FULL JOIN by_op AS o USING (launch)
ORDER BY launch;
