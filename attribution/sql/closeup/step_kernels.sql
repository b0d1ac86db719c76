-- step_kernels: one row an entry of a step's timeline on its device: a kernel, a memory operation, or
-- several short ones of one stream that share a cell of time.
--   own      whether all of it belongs to the step shown
--   kind     kernel or copy; name: kernel function, or the copy's kind number
--   bucket   of the kernel; the longest one's where several were merged; NULL for copies
--   merged   how many it stands for
-- reads: kernel_segments, ops, segments, buckets_of_names
-- parameters: $device, $segment, $from_ns, $to_ns, $cell_ns (shorter work shares cells; 0: none does)
WITH shown AS (
    SELECT
        'kernel' AS kind, k.stream, k.start_ns, k.end_ns, b.function AS name, b.bucket,
        CASE WHEN k.segment = $segment THEN '' ELSE s.phase || ' ' || s.part END AS other,
        k.kernel AS id
    FROM kernel_segments AS k
    JOIN segments AS s USING (segment)
    JOIN buckets_of_names AS b USING (name)
    WHERE k.device = $device AND k.end_ns > $from_ns AND k.start_ns < $to_ns
    UNION ALL
    SELECT
        'copy', o.stream, o.start_ns, o.end_ns,
        CASE WHEN o.kind = 'memset' THEN 'memset' ELSE 'copy ' || coalesce(o.copy_kind, -1) END,
        NULL, '', -1000000000000 - o.op
    FROM ops AS o
    WHERE o.kind IN ('memcpy', 'memset')
        AND o.device = $device AND o.end_ns > $from_ns AND o.start_ns < $to_ns
),
celled AS (
    SELECT
        *,
        CASE
            WHEN $cell_ns > 0 AND end_ns - start_ns < $cell_ns
                THEN (start_ns - $from_ns) // greatest($cell_ns, 1)
        END AS cell
    FROM shown
)
SELECT
    kind, stream,
    min(start_ns) AS start_ns, max(end_ns) AS end_ns,
    arg_max(name, end_ns - start_ns) AS name,
    arg_max(bucket, end_ns - start_ns) AS bucket,
    max(other) AS other,
    count(*) AS merged
FROM celled
GROUP BY kind, stream, cell, CASE WHEN cell IS NULL THEN id END
ORDER BY kind DESC, stream, start_ns, end_ns, name;
