-- rank_steps: one row a (measured step index, rank). A rank is a process on a physical device.
--   process              operating-system process id
--   start_ns, end_ns     first kernel start, last kernel end; wall_ns is their distance [ns]
--   ranks                ranks that have this step index
--   start_skew_ns        latest less earliest start over the ranks of the step; end_skew_ns alike [ns]
--   slowest              whether its wall is the longest of the step, and no other is as long
-- reads: steps_table, process_ids
CREATE OR REPLACE TEMP TABLE rank_steps AS
SELECT
    s.segment, p.pid AS process, s.device, s.step, s.start_ns, s.end_ns, s.wall_ns,
    count(*) OVER w AS ranks,
    max(s.start_ns) OVER w - min(s.start_ns) OVER w AS start_skew_ns,
    max(s.end_ns) OVER w - min(s.end_ns) OVER w AS end_skew_ns,
    s.wall_ns = max(s.wall_ns) OVER w
    AND count(*) OVER (PARTITION BY s.step, s.wall_ns) = 1 AS slowest
FROM steps_table AS s
JOIN process_ids AS p USING (process)
WHERE s.measured
WINDOW w AS (PARTITION BY s.step)
ORDER BY s.step, process, s.device;
