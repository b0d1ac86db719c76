-- op_slices: one row a memory copy or set of one device. Times in ns; copy_kind NULL for a set.
-- reads: ops
-- parameters: $device
SELECT process, stream, start_ns, end_ns, kind, coalesce(copy_kind, -1) AS copy_kind, bytes
FROM ops
WHERE device = $device AND kind IN ('memcpy', 'memset')
ORDER BY process, stream, start_ns, op;
