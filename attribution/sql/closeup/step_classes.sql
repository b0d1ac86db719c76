-- step_classes: one row a (verification step, device), as steps_table, and
--   pid          operating-system process id
--   step_class   warm-up, not measured, graph (most kernels replayed), eager
--   place        0, 1, ... in order of step within (process, device)
-- reads: steps_table, process_ids
CREATE OR REPLACE TEMP TABLE step_classes AS
SELECT
    s.*,
    p.pid,
    CASE
        WHEN s.warmup THEN 'warm-up'
        WHEN NOT s.measured THEN 'not measured'
        WHEN 2 * s.replayed >= s.kernels THEN 'graph'
        ELSE 'eager'
    END AS step_class,
    row_number() OVER (PARTITION BY s.process, s.device ORDER BY s.step) - 1 AS place
FROM steps_table AS s
JOIN process_ids AS p USING (process);
