-- kernels_out: one row a kernel execution, as written to kernels.parquet. Times in ns.
--   process      operating-system process id; device: physical GPU index
--   step, layer  NULL outside steps, and where no layer is known; graph_node: NULL if eager
-- reads: kernel_rows, segments, buckets_of_names, process_ids
CREATE OR REPLACE TEMP VIEW kernels_out AS
SELECT
    p.pid AS process,
    k.device,
    k.stream,
    k.start_ns,
    k.end_ns,
    b.function AS name,
    s.phase,
    s.part,
    CASE WHEN s.step >= 0 THEN s.step END AS step,
    nullif(k.layer, -1) AS layer,
    b.bucket,
    nullif(k.graph_node, 0) AS graph_node,
    k.grid_x, k.grid_y, k.grid_z
FROM kernel_rows AS k
JOIN segments AS s USING (segment)
JOIN buckets_of_names AS b USING (name)
LEFT JOIN process_ids AS p ON k.process = p.process
WHERE NOT k.is_block;
