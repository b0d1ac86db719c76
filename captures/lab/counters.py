"""What the engine counts: the series of `/metrics` under vLLM's names, and `SLOT_CACHE STATS`.

Written by the engine's thread alone; readers see whole integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from lanescope.captures.lab.config import LabConfig

_TTFT_EDGES = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    10.0,
)


class Counters:
    """Totals since start, and the sums of the running statistics window."""

    def __init__(self, config: LabConfig) -> None:
        self._config = config
        self.running = self.waiting = 0
        self.kv_share = 0.0
        self.prompt_tokens = self.generation_tokens = 0
        self.drafts = self.draft_tokens = 0
        self.accepted_at = [0] * config.k
        self.success = {"stop": 0, "length": 0, "abort": 0}
        self.misses = [0] * config.layers
        self.cached_passes = self.routed = 0
        self._ttft = [0] * (len(_TTFT_EDGES) + 1)
        self._ttft_sum = 0.0
        self._window_start = (0, 0, [0] * config.layers)

    def finished(self, reason: str) -> None:
        """A request ended."""
        self.success[reason] += 1

    def first_token_after(self, seconds: float) -> None:
        """A request's time to its first token."""
        self._ttft[sum(seconds > edge for edge in _TTFT_EDGES)] += 1
        self._ttft_sum += seconds

    def drafted(self, tried: int, accepted: int) -> None:
        """One stream's part of a verification step."""
        if tried:
            self.drafts += 1
            self.draft_tokens += tried
            for position in range(accepted):
                self.accepted_at[position] += 1

    def layer_steps(self, misses: Sequence[int], routed: int) -> None:
        """A pass through the cache: misses of each layer, routed rows of one."""
        self.cached_passes += 1
        self.routed += routed
        for layer, count in enumerate(misses):
            self.misses[layer] += count

    def stats_line(self, window_s: float) -> str | None:
        """The statistics of the passes since the last line, or None if there were none.

        HIT and the layers' hits are 1 - misses / routed rows, with the rows that were routed.
        """
        passes0, routed0, misses0 = self._window_start
        passes, routed = self.cached_passes - passes0, self.routed - routed0
        misses = [a - b for a, b in zip(self.misses, misses0, strict=True)]
        self._window_start = (self.cached_passes, self.routed, list(self.misses))
        if not passes:
            return None
        hits = [1 - m / routed for m in misses]
        best, worst = (
            max(range(len(hits)), key=hits.__getitem__),
            min(range(len(hits)), key=hits.__getitem__),
        )
        mean = sum(misses) / len(misses) / passes
        return (
            f"SLOT_CACHE STATS window {window_s:g}s: steps/layer={passes} "
            f"misses/step/layer={mean:.2f} HIT={sum(hits) / len(hits):.3f} "
            f"best={best}:{hits[best]:.2f} worst={worst}:{hits[worst]:.2f} "
            f"median_layer_hit={median(hits):.2f} routes/step/layer={routed / passes:.2f}"
        )

    def exposition(self) -> bytes:
        """The text that `/metrics` answers with."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """The series, for prometheus_client."""
        labels = {"model_name": self._config.model, "engine": "0"}
        names, values = list(labels), list(labels.values())

        def gauge(name: str, text: str, value: float) -> Metric:
            family = GaugeMetricFamily(name, text, labels=names)
            family.add_metric(values, value)
            return family

        def counter(name: str, text: str, rows: dict[str, int], label: str = "") -> Metric:
            family = CounterMetricFamily(name, text, labels=[*names, label] if label else names)
            for key, value in rows.items():
                family.add_metric([*values, key] if label else values, value)
            return family

        accepted = {str(i): n for i, n in enumerate(self.accepted_at)}
        layers = {str(i): n for i, n in enumerate(self.misses)}
        yield gauge("vllm:num_requests_running", "Requests in the batch.", self.running)
        yield gauge("vllm:num_requests_waiting", "Requests queued.", self.waiting)
        yield gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use.", self.kv_share)
        yield counter("vllm:prompt_tokens", "Prompt tokens.", {"": self.prompt_tokens})
        yield counter("vllm:generation_tokens", "Tokens written.", {"": self.generation_tokens})
        yield counter("vllm:request_success", "Requests ended.", self.success, "finished_reason")
        yield self._ttft_family(names, values)
        if self._config.k:
            spec = "vllm:spec_decode_num"
            yield counter(f"{spec}_drafts", "Drafts.", {"": self.drafts})
            yield counter(f"{spec}_draft_tokens", "Tokens drafted.", {"": self.draft_tokens})
            yield counter(
                f"{spec}_accepted_tokens", "Tokens accepted.", {"": sum(self.accepted_at)}
            )
            yield counter(
                f"{spec}_accepted_tokens_per_pos", "Accepted by place.", accepted, "position"
            )
        yield counter("lab:slot_cache_misses", "Missing expert rows.", layers, "layer")
        yield counter("lab:slot_cache_passes", "Passes through it.", {"": self.cached_passes})
        yield counter("lab:slot_cache_routed", "Routed rows a layer.", {"": self.routed})

    def _ttft_family(self, names: list[str], values: list[str]) -> Metric:
        total, buckets = 0, []
        for edge, count in zip([*map(str, _TTFT_EDGES), "+Inf"], self._ttft, strict=True):
            total += count
            buckets.append((edge, total))
        family = HistogramMetricFamily(
            "vllm:time_to_first_token_seconds", "Time to first token.", labels=names
        )
        family.add_metric(values, buckets, self._ttft_sum)
        return family
