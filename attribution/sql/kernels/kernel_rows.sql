-- kernel_rows: one row a row of kernel_segments, with its layer. Who needs no layer reads
-- kernel_segments: the join costs as much as a sum over all kernels.
--   layer      layer number: of the launch, else of the graph node; -1 where none is known
-- reads: kernel_segments, node_layers
CREATE OR REPLACE TEMP VIEW kernel_rows AS
SELECT
    k.* EXCLUDE (launch_layer),
    coalesce(nullif(k.launch_layer, -1), n.layer, -1) AS layer
FROM kernel_segments AS k
LEFT JOIN node_layers AS n ON k.graph_node = n.graph_node AND k.process = n.process;
