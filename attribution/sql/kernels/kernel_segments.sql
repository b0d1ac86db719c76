-- kernel_segments: one row a kernel execution, or a graph traced as one block, with its segment.
--   segment    row of segments; a kernel without a launch belongs to its process's outside segment
--   launch_layer   layer number of its launch, -1 where none is known (kernel_rows has the kernel's)
--   crowded    whether another row of the device may overlap it in time. Where graphs are traced as
--              blocks every row counts as crowded: blocks are not part of the staged flags.
--   is_block   a graph traced as one block: time, but no kernel; its kernel number is negative
-- reads: kernels, ops, work, assigned, outside_segments, blocks_present
CREATE OR REPLACE TEMP VIEW kernel_segments AS
SELECT
    k.kernel,
    k.process,
    k.device,
    k.stream,
    k.start_ns,
    k.end_ns,
    k.end_ns - k.start_ns AS duration_ns,
    k.launch,
    k.name,
    k.grid_x,
    k.grid_y,
    k.grid_z,
    k.graph_node,
    coalesce(a.segment, o.segment) AS segment,
    coalesce(a.layer, -1) AS launch_layer,
    k.crowded OR getvariable('blocks_present') AS crowded,
    false AS is_block
FROM kernels AS k
LEFT JOIN assigned AS a ON k.launch = a.launch
LEFT JOIN outside_segments AS o ON k.process = o.process
UNION ALL
SELECT
    -1 - g.op, g.process, g.device, g.stream, g.start_ns, g.end_ns, g.end_ns - g.start_ns,
    g.launch, -2, 0, 0, 0, 0,
    coalesce(a.segment, o.segment), -1, true, true
FROM ops AS g
LEFT JOIN assigned AS a ON g.launch = a.launch
LEFT JOIN outside_segments AS o ON g.process = o.process
-- both levels present: the nodes count, the block would count them again
LEFT JOIN work AS w ON g.launch = w.launch AND w.kernels > 0
WHERE g.kind = 'graph' AND w.launch IS NULL;
