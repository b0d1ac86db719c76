-- rank_collectives: one row a (collective, rank), matched across ranks by step index, lane and
-- order. A lane is one stream of every rank (see rank_lanes).
--   number      order within (rank, step, lane), from 0
--   ranks       ranks that have this (step, lane, number)
--   function_a, function_b   first and last of their function names in order: equal where all are
--   wait_ns     from its own start until the last rank's start, at most to its own end [ns]:
--               least(own end, latest start) - own start; least_wait_ns, most_wait_ns: the same where
--               the latest start is earlier or later by as much as the clocks may err
--   transfer_ns the rest: own end - own start - wait_ns [ns]
--   early       whether it ended before the last rank began: it cannot have waited for that rank
--   apart_ns    by how much it ended before the last rank began; below 0 where it did not [ns]
-- reads: rank_order, rank_lanes; variable clock_error_ns
CREATE OR REPLACE TEMP TABLE rank_collectives AS
WITH numbered AS (
    SELECT
        o.* EXCLUDE (number, place),
        l.lane,
        row_number() OVER (
            PARTITION BY o.rank, o.step, l.lane ORDER BY o.start_ns, o.kernel
        ) - 1 AS number
    FROM rank_order AS o
    JOIN rank_lanes AS l USING (rank, stream)
),
matched AS (
    SELECT
        *,
        count(*) OVER w AS ranks,
        min(function) OVER w AS function_a,
        max(function) OVER w AS function_b,
        max(start_ns) OVER w AS last_start_ns
    FROM numbered
    WINDOW w AS (PARTITION BY step, lane, number)
)
SELECT
    *,
    least(end_ns, last_start_ns) - start_ns AS wait_ns,
    end_ns - least(end_ns, last_start_ns) AS transfer_ns,
    greatest(least(end_ns, last_start_ns - getvariable('clock_error_ns')), start_ns) - start_ns
        AS least_wait_ns,
    least(end_ns, last_start_ns + getvariable('clock_error_ns')) - start_ns AS most_wait_ns,
    end_ns < last_start_ns AS early,
    last_start_ns - end_ns AS apart_ns
FROM matched;
