-- picks: one row a step shown close up: the measured (step, device) whose wall is the median, the
-- 95th percentile (both nearest rank) and the longest. Of equal walls the earlier step.
--   pick   median, p95, slowest; columns of step_classes follow
-- reads: step_classes
CREATE OR REPLACE TEMP VIEW picks AS
WITH ranked AS (
    SELECT
        *,
        row_number() OVER (ORDER BY wall_ns, step, process, device) AS place_by_wall,
        count(*) OVER () AS steps
    FROM step_classes
    WHERE measured
),
wanted AS (
    SELECT * FROM (VALUES (1, 'median', 0.50), (2, 'p95', 0.95), (3, 'slowest', 1.0))
        AS w (nth, pick, share)
)
SELECT w.nth, w.pick, r.*
FROM wanted AS w
JOIN ranked AS r ON r.place_by_wall = greatest(1, ceil(w.share * r.steps))
ORDER BY w.nth;
