-- rank_pairs: one row a (stream of rank 0, stream of another rank) that may carry the same
-- collectives: the same functions at the same places of the same steps, and of functions that need
-- every rank no pair that lies apart in time by more than the clocks may err.
--   in_time     whether they are also each other's in the order of start over all streams
-- reads: rank_order; variable clock_error_ns
CREATE OR REPLACE TEMP TABLE rank_pairs AS
WITH sizes AS (
    SELECT rank, stream, count(*) AS size FROM rank_order GROUP BY ALL
),
held AS (
    SELECT
        a.stream AS first_stream, b.rank, b.stream,
        count(*) AS same,
        count(*) FILTER (
            a.every_rank
            AND greatest(a.start_ns, b.start_ns)
                > least(a.end_ns, b.end_ns) + getvariable('clock_error_ns')
        ) AS apart,
        count(*) FILTER (a.number = b.number) AS in_time
    FROM rank_order AS a
    JOIN rank_order AS b
        ON a.step = b.step AND a.place = b.place AND a.function = b.function
    WHERE a.rank = 0 AND b.rank > 0
    GROUP BY ALL
)
SELECT h.rank, h.first_stream, h.stream, h.in_time = h.same AS in_time
FROM held AS h
JOIN sizes AS a ON a.rank = 0 AND a.stream = h.first_stream
JOIN sizes AS b ON b.rank = h.rank AND b.stream = h.stream
WHERE h.same = a.size AND h.same = b.size AND h.apart = 0
ORDER BY ALL;
