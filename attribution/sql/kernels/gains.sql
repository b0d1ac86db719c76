-- gains: one row a crowded kernel; what it adds to the union of the kernels before it, in order of
-- start (ties: in order of the export), within four groups. A nanosecond that several kernels share
-- belongs to the one that reached it first, so gains add up to the union exactly.
--   step_gain_ns     within its segment: its exclusive time in a step [ns]
--   bucket_gain_ns   within its bucket of its segment [ns]
--   phase_gain_ns    within its process's phase and part [ns]
--   device_gain_ns   within its device [ns]
-- reads: crowd
CREATE OR REPLACE TEMP TABLE gains AS
SELECT
    kernel, device, segment, name, process, phase, part, bucket,
    greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER in_step, start_ns)))
        AS step_gain_ns,
    greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER in_bucket, start_ns)))
        AS bucket_gain_ns,
    greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER in_phase, start_ns)))
        AS phase_gain_ns,
    greatest(0, end_ns - greatest(start_ns, coalesce(max(end_ns) OVER in_device, start_ns)))
        AS device_gain_ns
FROM crowd
WINDOW
    in_step AS (PARTITION BY segment, device ORDER BY start_ns, kernel
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    in_bucket AS (PARTITION BY segment, device, bucket ORDER BY start_ns, kernel
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    in_phase AS (PARTITION BY process, device, phase, part ORDER BY start_ns, kernel
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
    in_device AS (PARTITION BY device ORDER BY start_ns, kernel
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);
