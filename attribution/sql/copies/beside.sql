-- copy_beside: one row a kernel that overlaps another of its device and may run beside row copies.
--   process      process index; start_ns, end_ns
-- reads: kernel_rows
CREATE OR REPLACE TEMP VIEW copy_beside AS
SELECT process AS own_process, device, stream, start_ns, end_ns
FROM kernel_rows
WHERE crowded AND NOT is_block;
