-- rank_spans: one row a (measured step, rank) of all joined reports, on the first report's clock.
--   start_ns, end_ns   first kernel start, last kernel end; wall_ns is their distance [ns]
-- reads: all_spans, rank_list, report_offsets
CREATE OR REPLACE TEMP TABLE rank_spans AS
SELECT
    r.rank, s.step,
    s.start_ns + o.offset_ns AS start_ns,
    s.end_ns + o.offset_ns AS end_ns,
    s.wall_ns
FROM all_spans AS s
JOIN rank_list AS r ON s.report = r.report AND s.rank = r.own_rank
JOIN report_offsets AS o ON s.report = o.report;
