-- kernel_slices: one row a kernel execution, or a graph traced as one block, of one device.
--   name    id of a kernel name; layer -1 where none is known; times in ns
-- reads: kernel_rows
-- parameters: $device
SELECT process, stream, start_ns, end_ns, name, layer, is_block
FROM kernel_rows
WHERE device = $device
ORDER BY process, is_block, stream, start_ns, kernel;
