"""The lab lane: a small slot-cache mixture-of-experts engine that serves the OpenAI protocol.

It exists to be profiled: routed experts live in host memory, a per-layer LRU of expert rows in
slots, and the engine writes down every miss, so an attribution of it can be scored. Needs the extra
`lanescope[lab]`; with PyTorch and an NVIDIA GPU it runs there, otherwise in NumPy.
"""
