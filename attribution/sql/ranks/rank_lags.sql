-- rank_lags: one row a (rank, bin of neighbouring steps), in order: how far a rank is behind the
-- first one of each step.
--   steps_per_bin  so many that no rank has more than `most_lag_points` bins
--   step           the bin's first step index
--   start_ns       own start less the earliest start of the step, mean of the bin, rounded down [ns]
--   end_ns         own end less the earliest end of the step, likewise [ns]
-- reads: rank_steps; variable most_lag_points
CREATE OR REPLACE TEMP TABLE rank_lags AS
WITH placed AS (
    SELECT
        process, device, step,
        start_ns - min(start_ns) OVER (PARTITION BY step) AS start_lag_ns,
        end_ns - min(end_ns) OVER (PARTITION BY step) AS end_lag_ns,
        row_number() OVER w - 1 AS place,
        CAST(ceil(count(*) OVER (PARTITION BY process, device) / getvariable('most_lag_points'))
            AS BIGINT) AS steps_per_bin
    FROM rank_steps
    WINDOW w AS (PARTITION BY process, device ORDER BY step)
)
SELECT
    process, device, steps_per_bin,
    min(step) AS step,
    CAST(sum(start_lag_ns) // count(*) AS BIGINT) AS start_ns,
    CAST(sum(end_lag_ns) // count(*) AS BIGINT) AS end_ns
FROM placed
GROUP BY process, device, steps_per_bin, place // steps_per_bin
ORDER BY process, device, step;
