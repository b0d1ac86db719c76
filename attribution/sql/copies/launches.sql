-- copy_launches: one row a launch of the row-move kernel in a verification step, in order of
-- (process, device, step, start).
--   process      operating-system process id; device: physical GPU index
--   segment, step, request, measured   of the step it belongs to; request is -1 where unknown
--   start_ns, duration_ns, grid_x, grid_y, grid_z
--   layer        NULL where no layer is known; kernel: row of kernel_rows
-- reads: kernel_rows, segments, copy_names, process_ids
CREATE OR REPLACE TEMP TABLE copy_launches AS
SELECT
    p.pid AS process, k.process AS own_process, k.device, k.stream, k.segment, k.kernel,
    s.step, s.request, s.measured,
    k.start_ns, k.duration_ns, k.grid_x, k.grid_y, k.grid_z,
    nullif(k.layer, -1) AS layer
FROM kernel_rows AS k
JOIN copy_names USING (name)
JOIN segments AS s USING (segment)
JOIN process_ids AS p ON k.process = p.process
WHERE s.step >= 0 AND NOT k.is_block
ORDER BY p.pid, k.device, s.step, k.start_ns, k.kernel;
