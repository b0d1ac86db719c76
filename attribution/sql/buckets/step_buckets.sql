-- step_buckets: one row a (verification step, device, bucket).
--   sum_ns, busy_ns, exclusive_ns [ns], launches (kernel executions)
--   over a step's buckets exclusive_ns adds up to the step's busy time exactly
-- reads: facts, gains, segments, buckets_of_names
CREATE OR REPLACE TEMP TABLE step_buckets AS
WITH by_bucket AS (
    SELECT
        f.segment, f.device, b.bucket,
        CAST(sum(f.sum_ns) AS BIGINT) AS sum_ns,
        CAST(sum(f.alone_ns) AS BIGINT) AS alone_ns,
        CAST(sum(f.kernels) AS BIGINT) AS launches,
        CAST(sum(f.under_10us) AS BIGINT) AS under_10us,
        max(f.max_ns) AS max_ns
    FROM facts AS f
    JOIN segments AS s USING (segment)
    JOIN buckets_of_names AS b USING (name)
    WHERE s.step >= 0
    GROUP BY ALL
),
shared_time AS (
    SELECT
        segment, device, bucket,
        CAST(sum(step_gain_ns) AS BIGINT) AS step_gain_ns,
        CAST(sum(bucket_gain_ns) AS BIGINT) AS bucket_gain_ns
    FROM gains
    GROUP BY ALL
)
SELECT
    b.segment, s.process, b.device, s.step, s.measured, b.bucket,
    b.sum_ns,
    b.alone_ns + coalesce(o.bucket_gain_ns, 0) AS busy_ns,
    b.alone_ns + coalesce(o.step_gain_ns, 0) AS exclusive_ns,
    b.launches, b.under_10us, b.max_ns
FROM by_bucket AS b
JOIN segments AS s USING (segment)
LEFT JOIN shared_time AS o USING (segment, device, bucket)
ORDER BY s.process, s.step, b.device, b.bucket;
