-- phases_table: one row a (process, device, phase, part, range name).
--   evidence    what told the phase
--   instances   segments of it that hold kernels or ranges; sum_ns, busy_ns [ns]; busy is a union
-- reads: facts, gains, segments
CREATE OR REPLACE TEMP TABLE phases_table AS
WITH by_phase AS (
    SELECT
        s.process, f.device, s.phase, s.part, s.range_name,
        string_agg(DISTINCT s.evidence, ', ' ORDER BY s.evidence) AS evidence,
        CAST(sum(f.kernels) AS BIGINT) AS kernels,
        CAST(sum(f.blocks) AS BIGINT) AS blocks,
        CAST(sum(f.sum_ns) AS BIGINT) AS sum_ns,
        CAST(sum(f.alone_ns) AS BIGINT) AS alone_ns,
        min(f.start_ns) AS start_ns, max(f.end_ns) AS end_ns
    FROM facts AS f JOIN segments AS s USING (segment)
    GROUP BY ALL
),
shared_time AS (
    SELECT g.process, g.device, g.phase, g.part, s.range_name,
        CAST(sum(phase_gain_ns) AS BIGINT) AS gain_ns
    FROM gains AS g JOIN segments AS s USING (segment)
    GROUP BY ALL
),
instances AS (
    SELECT process, phase, part, range_name, count(*) AS instances, any_value(evidence) AS evidence
    FROM segments
    WHERE evidence <> 'none'
    GROUP BY ALL
)
SELECT
    coalesce(b.process, i.process) AS process,
    b.device,
    coalesce(b.phase, i.phase) AS phase,
    coalesce(b.part, i.part) AS part,
    coalesce(b.range_name, i.range_name) AS range_name,
    coalesce(b.evidence, i.evidence) AS evidence,
    coalesce(i.instances, 0) AS instances,
    coalesce(b.kernels, 0) AS kernels,
    coalesce(b.blocks, 0) AS graph_blocks,
    coalesce(b.sum_ns, 0) AS sum_ns,
    coalesce(b.alone_ns, 0) + coalesce(o.gain_ns, 0) AS busy_ns,
    b.start_ns, b.end_ns
FROM by_phase AS b
FULL JOIN instances AS i USING (process, phase, part, range_name)
LEFT JOIN shared_time AS o
    ON b.process = o.process AND b.device = o.device AND b.phase = o.phase
    AND b.part = o.part AND b.range_name = o.range_name
ORDER BY 1, 2, 3, 4, 5;
