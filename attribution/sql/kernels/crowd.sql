-- crowd: one row a kernel that overlaps another one of its device. Unions and exclusive times need
-- order in time for these rows only.
--   own_process  the kernel's process index; process: that of its segment
-- reads: kernel_segments, segments, buckets_of_names
CREATE OR REPLACE TEMP TABLE crowd AS
SELECT
    k.kernel, k.process AS own_process, k.device, k.stream, k.start_ns, k.end_ns, k.segment, k.name,
    s.process, s.phase, s.part, b.bucket
FROM kernel_segments AS k
JOIN segments AS s USING (segment)
JOIN buckets_of_names AS b USING (name)
WHERE k.crowded;
