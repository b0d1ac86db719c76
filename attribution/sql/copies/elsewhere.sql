-- copy_elsewhere: one row a phase that holds row copies outside the verification steps.
--   phase; launches; sum_ns [ns]
-- reads: facts, segments, copy_names
CREATE OR REPLACE TEMP VIEW copy_elsewhere AS
SELECT
    s.phase,
    CAST(sum(f.kernels) AS BIGINT) AS launches,
    CAST(sum(f.kernel_sum_ns) AS BIGINT) AS sum_ns
FROM facts AS f
JOIN copy_names USING (name)
JOIN segments AS s USING (segment)
WHERE s.step < 0 AND f.kernels > 0
GROUP BY s.phase
ORDER BY s.phase;
