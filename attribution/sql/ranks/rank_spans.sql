-- rank_spans: one row a (measured step, rank).
--   start_ns, end_ns   first kernel start, last kernel end; wall_ns is their distance [ns]
-- reads: steps_table, rank_list
CREATE OR REPLACE TEMP TABLE rank_spans AS
SELECT r.rank, s.segment, s.step, s.start_ns, s.end_ns, s.wall_ns
FROM steps_table AS s
JOIN rank_list AS r ON s.process = r.traced AND s.device = r.device
WHERE s.measured;
