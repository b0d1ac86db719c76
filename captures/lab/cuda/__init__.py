"""The lab model on an NVIDIA GPU: PyTorch for memory and graphs, Triton for every kernel of a layer."""
