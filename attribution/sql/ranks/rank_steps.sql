-- rank_steps: one row a (measured step index, rank), held against the other ranks of the step.
--   ranks                ranks that have this step index
--   start_skew_ns        latest less earliest start over the ranks of the step; end_skew_ns alike [ns]
--   start_lag_ns, end_lag_ns   own start and end less the earliest of the step [ns]
--   slowest              whether its wall is the longest of the step, and no other is as long
-- reads: rank_spans
CREATE OR REPLACE TEMP TABLE rank_steps AS
SELECT
    rank, step, start_ns, end_ns, wall_ns,
    count(*) OVER w AS ranks,
    max(start_ns) OVER w - min(start_ns) OVER w AS start_skew_ns,
    max(end_ns) OVER w - min(end_ns) OVER w AS end_skew_ns,
    start_ns - min(start_ns) OVER w AS start_lag_ns,
    end_ns - min(end_ns) OVER w AS end_lag_ns,
    wall_ns = max(wall_ns) OVER w
    AND count(*) OVER (PARTITION BY step, wall_ns) = 1 AS slowest
FROM rank_spans
WINDOW w AS (PARTITION BY step)
ORDER BY step, rank;
