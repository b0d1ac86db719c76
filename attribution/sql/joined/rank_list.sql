-- rank_list: one row a rank of all joined reports, numbered from 0 by report and by its number there.
--   report    number of its report; own_rank: its number in that report
-- reads: all_list
CREATE OR REPLACE TEMP TABLE rank_list AS
SELECT
    row_number() OVER (ORDER BY report, rank) - 1 AS rank,
    report, rank AS own_rank, process, device
FROM all_list
ORDER BY report, own_rank;
