-- rank_lags: one row a (rank, bin of neighbouring steps), in order: how far a rank is behind the
-- first one of each step.
--   steps_per_bin  so many that no rank has more than `most_lag_points` bins
--   step           the bin's first step index
--   start_ns, end_ns   start_lag_ns and end_lag_ns of rank_steps, means of the bin, rounded down [ns]
-- reads: rank_steps; variable most_lag_points
CREATE OR REPLACE TEMP TABLE rank_lags AS
WITH placed AS (
    SELECT
        rank, step, start_lag_ns, end_lag_ns,
        row_number() OVER (PARTITION BY rank ORDER BY step) - 1 AS place,
        CAST(ceil(count(*) OVER (PARTITION BY rank) / getvariable('most_lag_points')) AS BIGINT)
            AS steps_per_bin
    FROM rank_steps
)
SELECT
    rank, steps_per_bin,
    min(step) AS step,
    CAST(sum(start_lag_ns) // count(*) AS BIGINT) AS start_ns,
    CAST(sum(end_lag_ns) // count(*) AS BIGINT) AS end_ns
FROM placed
GROUP BY rank, steps_per_bin, place // steps_per_bin
ORDER BY rank, step;
