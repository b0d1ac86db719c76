-- odd_names: one row a (odd step that is shown, device, kernel function), with the function's usual
-- share of a step; the `most_names` functions in which the step differs most.
--   sum_ns, launches                in the step
--   usual_ns, usual_launches        per measured step and device [ns]
--   distance                        1 is where the step differs most from the usual
-- reads: shown_steps, facts, buckets_of_names, names_table, step_classes; variable most_names
CREATE OR REPLACE TEMP VIEW odd_names AS
WITH measured_steps AS (SELECT count(*) AS n FROM step_classes WHERE measured),
in_step AS (
    SELECT
        o.segment, o.device, b.bucket, b.function AS name,
        CAST(sum(f.sum_ns) AS BIGINT) AS sum_ns,
        CAST(sum(f.kernels) AS BIGINT) AS launches
    FROM shown_steps AS o
    JOIN facts AS f USING (segment, device)
    JOIN buckets_of_names AS b USING (name)
    WHERE o.odd
    GROUP BY ALL
),
against AS (
    SELECT
        i.*,
        coalesce(u.sum_ns, 0) // m.n AS usual_ns,
        coalesce(u.launches, 0) / m.n AS usual_launches
    FROM in_step AS i
    CROSS JOIN measured_steps AS m
    LEFT JOIN names_table AS u USING (bucket, name)
)
SELECT
    *,
    row_number() OVER (
        PARTITION BY segment, device ORDER BY abs(sum_ns - usual_ns) DESC, name, bucket
    ) AS distance
FROM against
QUALIFY distance <= getvariable('most_names');
