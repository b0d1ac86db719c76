-- rank_order: one row a kernel of rank_calls with its order.
--   number      order by start within (rank, step), from 0; place: within (rank, step, stream)
--   every_rank  whether its function needs something of every rank: no rank can end such a
--               collective before the last one has begun it. Not so of broadcasts, sends, puts.
--   crowded     whether it begins before an earlier one of its rank and step has ended
-- reads: rank_calls
CREATE OR REPLACE TEMP TABLE rank_order AS
SELECT
    *,
    row_number() OVER by_start - 1 AS number,
    row_number() OVER (PARTITION BY rank, step, stream ORDER BY start_ns, kernel) - 1 AS place,
    regexp_matches(
        function, '(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce'
    ) AS every_rank,
    coalesce(
        start_ns < max(end_ns) OVER (
            by_start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        false
    ) AS crowded
FROM rank_calls
WINDOW by_start AS (PARTITION BY rank, step ORDER BY start_ns, kernel);
