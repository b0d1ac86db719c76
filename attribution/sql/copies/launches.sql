-- copy_launches: one row a launch of the row-move kernel in a verification step, in no order: the
-- kernels come sorted by start, and sorting them anew would cost more than all the rest.
--   process      operating-system process id; device: physical GPU index
--   segment, step, request, measured   of the step it belongs to; request is -1 where unknown
--   start_ns, duration_ns, grid_x, grid_y, grid_z
--   layer        NULL where no layer is known; kernel: row of kernel_rows
-- reads: kernel_rows, segments, copy_names, process_ids
CREATE OR REPLACE TEMP VIEW copy_launches AS
SELECT
    p.pid AS process, k.process AS own_process, k.device, k.stream,
    CAST(k.segment AS INTEGER) AS segment, k.kernel,
    CAST(s.step AS INTEGER) AS step, CAST(s.request AS INTEGER) AS request, s.measured,
    k.start_ns, k.duration_ns,
    CAST(k.grid_x AS INTEGER) AS grid_x, CAST(k.grid_y AS INTEGER) AS grid_y,
    CAST(k.grid_z AS INTEGER) AS grid_z,
    CAST(nullif(k.layer, -1) AS INTEGER) AS layer
FROM kernel_rows AS k
JOIN copy_names USING (name)
JOIN segments AS s USING (segment)
JOIN process_ids AS p ON k.process = p.process
WHERE s.step >= 0 AND NOT k.is_block;
