-- kernel_work: one row a launch (API call) that ran kernels, with what `work` says of them.
-- reads: kernels
CREATE OR REPLACE TEMP TABLE kernel_work AS
SELECT
    launch,
    any_value(process) AS process,
    count(*) AS kernels,
    CAST(sum(end_ns - start_ns) AS BIGINT) AS gpu_ns,
    min(start_ns) AS gpu_start_ns,
    max(end_ns) AS gpu_end_ns,
    coalesce(min(graph_node) FILTER (graph_node > 0), 0) AS graph,
    CAST(sum(hash(name, grid_x, grid_y, grid_z) >> 24) AS BIGINT) AS print,
    CAST(sum(hash(name) >> 24) AS BIGINT) AS print_names,
    CAST(sum(grid_x * grid_y * grid_z) AS BIGINT) AS blocks
FROM kernels
WHERE launch >= 0
GROUP BY launch;
