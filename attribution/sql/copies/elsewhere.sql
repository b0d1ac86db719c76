-- copy_elsewhere: one row a phase that holds row copies outside the verification steps.
--   phase; launches; sum_ns [ns]
-- reads: kernel_rows, segments, copy_names
CREATE OR REPLACE TEMP VIEW copy_elsewhere AS
SELECT s.phase, count(*) AS launches, CAST(sum(k.duration_ns) AS BIGINT) AS sum_ns
FROM kernel_rows AS k
JOIN copy_names USING (name)
JOIN segments AS s USING (segment)
WHERE s.step < 0 AND NOT k.is_block
GROUP BY s.phase
ORDER BY s.phase;
