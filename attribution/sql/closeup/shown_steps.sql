-- shown_steps: one row a (step, device) that a page shows close up or names as odd.
--   odd    whether it is one of the first `most_odd` odd steps
-- reads: picks, odd_steps; variable most_odd
CREATE OR REPLACE TEMP TABLE shown_steps AS
WITH odd AS (
    SELECT segment, device FROM odd_steps
    ORDER BY wall_ns DESC, step, process, device LIMIT getvariable('most_odd')
)
SELECT segment, device, bool_or(odd) AS odd
FROM (
    SELECT segment, device, true AS odd FROM odd
    UNION ALL
    SELECT segment, device, false FROM picks
)
GROUP BY segment, device;
