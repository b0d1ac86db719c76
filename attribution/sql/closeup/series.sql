-- series: one row a (process, device, bin of neighbouring steps), in order.
--   steps_per_bin   so many that no (process, device) has more than `most_points` bins
--   step            index of the bin's first step; steps: how many it holds
--   step_class      of most steps in the bin; of equally many the first by name
--   wall_ns, busy_ns   means, rounded down [ns]; longest_ns: longest wall in the bin [ns]
-- reads: step_classes; variable most_points
CREATE OR REPLACE TEMP VIEW series AS
WITH sized AS (
    SELECT
        *,
        CAST(ceil(count(*) OVER (PARTITION BY process, device) / getvariable('most_points'))
            AS BIGINT) AS steps_per_bin
    FROM step_classes
),
by_class AS (
    SELECT
        process, device, place // steps_per_bin AS bin, step_class,
        any_value(pid) AS pid,
        any_value(steps_per_bin) AS steps_per_bin,
        min(step) AS step,
        count(*) AS steps,
        sum(wall_ns) AS wall_ns,
        sum(gpu_busy_ns) AS busy_ns,
        max(wall_ns) AS longest_ns
    FROM sized
    GROUP BY ALL
)
SELECT
    process, device, bin,
    any_value(pid) AS pid,
    any_value(steps_per_bin) AS steps_per_bin,
    min(step) AS step,
    CAST(sum(steps) AS BIGINT) AS steps,
    first(step_class ORDER BY steps DESC, step_class) AS step_class,
    CAST(sum(wall_ns) // sum(steps) AS BIGINT) AS wall_ns,
    CAST(sum(busy_ns) // sum(steps) AS BIGINT) AS busy_ns,
    max(longest_ns) AS longest_ns
FROM by_class
GROUP BY process, device, bin
ORDER BY process, device, bin;
