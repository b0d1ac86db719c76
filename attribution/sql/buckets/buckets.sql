-- buckets_table: one row a bucket, over the measured verification steps (all devices together).
--   *_ns are totals [ns]; p50, p95, max of kernel durations [ns], nearest rank
-- reads: step_buckets, durations
CREATE OR REPLACE TEMP TABLE buckets_table AS
WITH totals AS (
    SELECT
        bucket,
        CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
        CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
        CAST(sum(exclusive_ns) AS BIGINT) AS exclusive_ns,
        CAST(sum(launches) AS BIGINT) AS launches,
        CAST(sum(under_10us) AS BIGINT) AS under_10us,
        max(max_ns) AS max_ns
    FROM step_buckets
    WHERE measured
    GROUP BY bucket
),
ranks AS (
    SELECT
        bucket,
        min(duration_ns) FILTER (up_to >= ceil(0.50 * total)) AS p50_ns,
        min(duration_ns) FILTER (up_to >= ceil(0.95 * total)) AS p95_ns
    FROM durations
    GROUP BY bucket
)
SELECT t.*, r.p50_ns, r.p95_ns
FROM totals AS t LEFT JOIN ranks AS r USING (bucket)
ORDER BY t.exclusive_ns DESC, t.bucket;
