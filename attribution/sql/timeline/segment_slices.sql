-- segment_slices: one row a (segment, device): a verification step, a draft, a prefill, as its kernels
-- lie in time, from the first start to the last end [ns]. Work outside all phases has no row.
-- reads: facts, segments
-- parameters: $device
SELECT
    s.process, s.step, s.request, s.phase, s.part, s.warmup,
    min(f.start_ns) AS start_ns,
    max(f.end_ns) AS end_ns
FROM facts AS f
JOIN segments AS s USING (segment)
WHERE f.device = $device AND s.phase <> 'outside'
GROUP BY f.segment, s.process, s.step, s.request, s.phase, s.part, s.warmup
ORDER BY s.process, start_ns, end_ns, s.step;
