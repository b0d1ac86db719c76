-- steps_table: one row a (verification step, device): its kernels in time.
--   step         step index within its process, in order of host start
--   start_ns, end_ns   first kernel start, last kernel end; wall_ns is their distance [ns]
--   gpu_sum_ns, gpu_busy_ns    summed kernel time, union of kernel time [ns]
--   idle_ns      wall without a kernel of the step [ns]
--   kernels, replayed          all, and those replayed by CUDA graphs
-- reads: facts, gains, segments
CREATE OR REPLACE TEMP TABLE steps_table AS
WITH by_step AS (
    SELECT
        segment, device,
        CAST(sum(kernels) AS BIGINT) AS kernels,
        CAST(coalesce(sum(kernels) FILTER (replayed), 0) AS BIGINT) AS replayed,
        CAST(sum(sum_ns) AS BIGINT) AS gpu_sum_ns,
        CAST(sum(alone_ns) AS BIGINT) AS alone_ns,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM facts
    GROUP BY ALL
),
shared_time AS (
    SELECT segment, device, CAST(sum(step_gain_ns) AS BIGINT) AS gain_ns FROM gains GROUP BY ALL
)
SELECT
    s.segment, s.process, b.device, s.step, s.request, s.warmup, s.measured, s.evidence,
    s.start_ns AS host_start_ns, s.end_ns AS host_end_ns,
    b.start_ns, b.end_ns,
    b.end_ns - b.start_ns AS wall_ns,
    b.gpu_sum_ns,
    b.alone_ns + coalesce(o.gain_ns, 0) AS gpu_busy_ns,
    b.end_ns - b.start_ns - b.alone_ns - coalesce(o.gain_ns, 0) AS idle_ns,
    b.kernels, b.replayed
FROM segments AS s
JOIN by_step AS b USING (segment)
LEFT JOIN shared_time AS o USING (segment, device)
WHERE s.step >= 0
ORDER BY s.process, s.step, b.device;
