"""The lab model on an NVIDIA GPU: PyTorch for memory and graphs, Triton for a layer's kernels."""
