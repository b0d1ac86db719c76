-- shown_steps: one row a (step, device) that a page shows close up or names as odd.
--   odd    whether it is one of the `most_odd` oddest steps
-- reads: picks, odd_steps; variable most_odd
CREATE OR REPLACE TEMP TABLE shown_steps AS
SELECT segment, device, bool_or(odd) AS odd
FROM (
    SELECT segment, device, true AS odd FROM odd_steps WHERE oddness <= getvariable('most_odd')
    UNION ALL
    SELECT segment, device, false FROM picks
)
GROUP BY segment, device;
