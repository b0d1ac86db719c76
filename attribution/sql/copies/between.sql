-- copy_between: one row a launch of copy_launches.
--   between      other kernels of its step that started since the copy before it; 0 for the first
-- reads: copy_launches, kernel_segments
CREATE OR REPLACE TEMP VIEW copy_between AS
WITH placed AS (
    SELECT
        kernel, segment, device,
        row_number() OVER (PARTITION BY segment, device ORDER BY start_ns, kernel) AS place
    FROM kernel_segments
    WHERE segment IN (SELECT DISTINCT segment FROM copy_launches) AND NOT is_block
)
SELECT
    c.kernel,
    coalesce(
        p.place - lag(p.place) OVER (PARTITION BY p.segment, p.device ORDER BY p.place) - 1, 0
    ) AS between
FROM copy_launches AS c
JOIN placed AS p USING (kernel);
