-- names_table: one row a (bucket, kernel function name) over measured verification steps.
-- reads: facts, segments, buckets_of_names
CREATE OR REPLACE TEMP TABLE names_table AS
SELECT
    b.bucket, b.function AS name,
    CAST(sum(f.kernels) AS BIGINT) AS launches,
    CAST(sum(f.sum_ns) AS BIGINT) AS sum_ns,
    max(f.max_ns) AS max_ns
FROM facts AS f
JOIN segments AS s USING (segment)
JOIN buckets_of_names AS b USING (name)
WHERE s.measured
GROUP BY ALL
ORDER BY sum_ns DESC, name;
