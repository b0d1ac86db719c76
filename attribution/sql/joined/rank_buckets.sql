-- rank_buckets: one row a (rank, bucket) over its measured steps, and one 'idle', of all joined
-- reports; see ranks/rank_buckets [ns].
-- reads: all_buckets, rank_list
CREATE OR REPLACE TEMP TABLE rank_buckets AS
SELECT r.rank, b.bucket, b.sum_ns, b.exclusive_ns
FROM all_buckets AS b
JOIN rank_list AS r ON b.report = r.report AND b.rank = r.own_rank;
