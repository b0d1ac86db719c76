-- durations: one row a (bucket, duration) over the kernels of measured verification steps, with how
-- many kernels lasted exactly that long and how many lasted no longer. Nearest-rank percentiles of a
-- bucket are read from it: the first duration whose running count reaches the rank.
-- reads: kernel_segments, segments, buckets_of_names
CREATE OR REPLACE TEMP TABLE durations AS
WITH counted AS (
    SELECT b.bucket, k.duration_ns, count(*) AS kernels
    FROM kernel_segments AS k
    JOIN segments AS s USING (segment)
    JOIN buckets_of_names AS b USING (name)
    WHERE s.measured AND NOT k.is_block
    GROUP BY ALL
)
SELECT
    bucket, duration_ns, kernels,
    CAST(sum(kernels) OVER (PARTITION BY bucket ORDER BY duration_ns) AS BIGINT) AS up_to,
    CAST(sum(kernels) OVER (PARTITION BY bucket) AS BIGINT) AS total
FROM counted;
