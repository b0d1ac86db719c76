-- odd_steps: one row a measured (step, device) whose wall lies above the median by more than three
-- robust standard deviations (1.4826 times the median absolute deviation) and by more than 5 %.
--   above_median_ns   how far above [ns]; oddness: 1 is the longest wall, of equals the earliest step;
--                     the rest as in step_classes
-- reads: step_classes
CREATE OR REPLACE TEMP TABLE odd_steps AS
WITH middle AS (
    SELECT quantile_disc(wall_ns, 0.5) AS median_ns, mad(wall_ns) AS mad_ns
    FROM step_classes
    WHERE measured
)
SELECT
    s.*,
    s.wall_ns - m.median_ns AS above_median_ns,
    row_number() OVER (ORDER BY s.wall_ns DESC, s.step, s.process, s.device) AS oddness
FROM step_classes AS s, middle AS m
WHERE s.measured
    AND s.wall_ns - m.median_ns > greatest(3 * 1.4826 * m.mad_ns, 0.05 * m.median_ns);
