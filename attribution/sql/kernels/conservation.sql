-- conservation: one row; what must be equal or zero, or a join has lost or doubled something.
--   export_kernels, export_ns   of the staged kernels; fact_kernels, fact_ns after all joins
--   open_steps                  steps whose buckets and idle do not add up to the wall
-- reads: kernels, facts, steps_table, step_buckets
CREATE OR REPLACE TEMP VIEW conservation AS
WITH in_buckets AS (
    SELECT segment, device, CAST(sum(exclusive_ns) AS BIGINT) AS ns FROM step_buckets GROUP BY ALL
)
SELECT
    (SELECT count(*) FROM kernels) AS export_kernels,
    (SELECT CAST(coalesce(sum(end_ns - start_ns), 0) AS BIGINT) FROM kernels) AS export_ns,
    (SELECT CAST(coalesce(sum(kernels), 0) AS BIGINT) FROM facts) AS fact_kernels,
    (SELECT CAST(coalesce(sum(kernel_sum_ns), 0) AS BIGINT) FROM facts) AS fact_ns,
    (
        SELECT count(*) FROM steps_table AS s JOIN in_buckets AS b USING (segment, device)
        WHERE b.ns + s.idle_ns <> s.wall_ns
    ) AS open_steps;
