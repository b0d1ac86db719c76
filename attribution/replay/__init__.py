"""Cache replay: what a slot budget, a policy or a predictor could win, from a routing trace alone.

The rules that a replay follows are written down in `docs/replay-semantics.md`; an engine that
follows them has the replay's miss counts exactly.
"""
