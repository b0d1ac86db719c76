-- rank_calls: one row a kernel of the bucket 'communication' in a measured step of a rank, of all
-- joined reports, on the first report's clock [ns].
-- reads: all_calls, rank_list, report_offsets
CREATE OR REPLACE TEMP TABLE rank_calls AS
SELECT
    r.rank, c.step, c.stream, c.function, c.kernel,
    c.start_ns + o.offset_ns AS start_ns,
    c.end_ns + o.offset_ns AS end_ns
FROM all_calls AS c
JOIN rank_list AS r ON c.report = r.report AND c.rank = r.own_rank
JOIN report_offsets AS o ON c.report = o.report;
