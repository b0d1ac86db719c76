-- rank_list: one row a rank: a process on a physical device that has measured steps.
--   rank      number from 0, by process id and device
--   process   operating-system process id; traced: its number among the traced processes
-- reads: steps_table, process_ids
CREATE OR REPLACE TEMP TABLE rank_list AS
SELECT
    row_number() OVER (ORDER BY p.pid, s.device, s.process) - 1 AS rank,
    p.pid AS process,
    s.device,
    s.process AS traced
FROM (SELECT DISTINCT process, device FROM steps_table WHERE measured) AS s
JOIN process_ids AS p USING (process)
ORDER BY rank;
