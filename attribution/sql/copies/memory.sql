-- copy_memory: one row a memory copy between host and device.
--   kind         'h2d' or 'd2h'; bytes; pinned: whether the host side is page-locked memory
--   start_ns, end_ns, device
-- reads: ops, copy_kinds (id, kind), pinned_kinds (id)
CREATE OR REPLACE TEMP VIEW copy_memory AS
SELECT
    o.device, o.start_ns, o.end_ns, coalesce(o.bytes, 0) AS bytes, c.kind,
    coalesce(
        CASE WHEN c.kind = 'h2d' THEN o.src_kind ELSE o.dst_kind END
            IN (SELECT id FROM pinned_kinds), false
    ) AS pinned
FROM ops AS o
JOIN copy_kinds AS c ON o.copy_kind = c.id
WHERE o.kind = 'memcpy';
