-- rank_collectives: one row a (collective, rank): kernels of the bucket 'communication' in measured
-- steps, matched across ranks by step index and by order number within the step (by kernel start).
--   number      order number within (step, rank), from 0
--   ranks, functions   ranks that have this (step, number); distinct function names among them
--   wait_ns     from its own start until the last rank's start, at most to its own end [ns]:
--               least(own end, latest start) - own start
--   transfer_ns the rest: own end - own start - wait_ns [ns]
--   early       whether it ended before the last rank began: it cannot have waited for that rank
-- reads: rank_steps, kernel_rows, buckets_of_names
CREATE OR REPLACE TEMP TABLE rank_collectives AS
WITH numbered AS (
    SELECT
        r.process, r.device, r.step, b.function, k.start_ns, k.end_ns,
        row_number() OVER (
            PARTITION BY r.process, r.device, r.step ORDER BY k.start_ns, k.kernel
        ) - 1 AS number
    FROM kernel_rows AS k
    JOIN buckets_of_names AS b USING (name)
    JOIN rank_steps AS r ON k.segment = r.segment AND k.device = r.device
    WHERE b.bucket = 'communication' AND NOT k.is_block
),
matched AS (
    SELECT
        step, number,
        count(*) AS ranks,
        count(DISTINCT function) AS functions,
        max(start_ns) AS last_start_ns
    FROM numbered
    GROUP BY step, number
)
SELECT
    n.*, m.ranks, m.functions,
    least(n.end_ns, m.last_start_ns) - n.start_ns AS wait_ns,
    n.end_ns - least(n.end_ns, m.last_start_ns) AS transfer_ns,
    n.end_ns < m.last_start_ns AS early
FROM numbered AS n
JOIN matched AS m USING (step, number);
