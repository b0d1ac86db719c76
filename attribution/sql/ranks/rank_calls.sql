-- rank_calls: one row a kernel of the bucket 'communication' in a measured step of a rank.
--   kernel      its number in the trace
--   start_ns, end_ns   when it ran [ns]
-- reads: rank_list, rank_spans, kernel_rows, buckets_of_names
CREATE OR REPLACE TEMP TABLE rank_calls AS
SELECT s.rank, s.step, k.stream, b.function, k.kernel, k.start_ns, k.end_ns
FROM kernel_rows AS k
JOIN buckets_of_names AS b USING (name)
JOIN rank_list AS r USING (device)
JOIN rank_spans AS s ON k.segment = s.segment AND r.rank = s.rank
WHERE b.bucket = 'communication' AND NOT k.is_block;
