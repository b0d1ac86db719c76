-- copy_beside: one row a kernel that overlaps another of its device and may run beside row copies.
--   own_process  process index; start_ns, end_ns
-- reads: crowd
CREATE OR REPLACE TEMP VIEW copy_beside AS
SELECT own_process, device, stream, start_ns, end_ns
FROM crowd
WHERE kernel >= 0;
