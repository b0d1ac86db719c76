-- rank_buckets: one row a (rank, bucket) over its measured steps, and one 'idle'.
--   sum_ns         summed kernel time; 0 for idle [ns]
--   exclusive_ns   over a rank's rows it adds up to the walls of its steps exactly [ns]
-- reads: steps_table, step_buckets, rank_list
CREATE OR REPLACE TEMP TABLE rank_buckets AS
SELECT
    r.rank, b.bucket,
    CAST(sum(b.sum_ns) AS BIGINT) AS sum_ns,
    CAST(sum(b.exclusive_ns) AS BIGINT) AS exclusive_ns
FROM step_buckets AS b
JOIN rank_list AS r ON b.process = r.traced AND b.device = r.device
WHERE b.measured
GROUP BY ALL
UNION ALL
SELECT r.rank, 'idle', 0, CAST(sum(s.idle_ns) AS BIGINT)
FROM steps_table AS s
JOIN rank_list AS r ON s.process = r.traced AND s.device = r.device
WHERE s.measured
GROUP BY ALL;
