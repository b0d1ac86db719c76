"""A server's own counters (`/metrics`), and what they say about other clients.

Names differ by engine; the differences are the table below. A series that is missing is said to be
missing: it never counts as an idle server.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lanescope.profiler.adapters.completion import ask

#: what is counted -> the series that engines use for it
SERIES: dict[str, tuple[str, ...]] = {
    "requests": ("vllm:request_success_total", "sglang:num_requests_total"),
    "prompt_tokens": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    "generation_tokens": ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    "drafts": ("vllm:spec_decode_num_drafts_total",),
    "drafted_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
}
Counts = dict[str, float | None]


def scrape(url: str, key: str = "", timeout: float = 10.0) -> Counts | None:
    """The server's figures, summed over labels; None where there is no metrics endpoint."""
    status, text = ask(url.rstrip("/") + "/metrics", key, timeout=timeout)
    if status != 200:
        return None
    sums: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    except ValueError:
        return None
    return {
        what: next((sums[name] for name in names if name in sums), None)
        for what, names in SERIES.items()
    }


@dataclass
class Bracket:
    """Counters before and after a probe, and the crowd seen during it."""

    before: Counts | None
    after: Counts | None = None
    most_running: float = 0.0
    samples: int = 0
    crowded: list[dict[str, float]] = field(default_factory=list)

    def moved(self, what: str) -> float | None:
        """By how much a counter moved; None where it is not reported or was reset."""
        first, last = (self.before or {}).get(what), (self.after or {}).get(what)
        return last - first if first is not None and last is not None and last >= first else None


class Watch:
    """Samples running + waiting during a probe and compares them with what is in flight here."""

    def __init__(self, url: str, key: str, in_flight: Any, every_s: float = 0.25) -> None:
        self.url, self.key, self.every_s = url, key, every_s
        self.in_flight = in_flight
        self.bracket = Bracket(scrape(url, key))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Bracket:
        if self.bracket.before is not None:
            self._thread.start()
        return self.bracket

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        if self._thread.ident:
            self._thread.join(15)
        last = scrape(self.url, self.key)
        for _ in range(20):  # engines count a request a moment after its last byte
            time.sleep(0.1)
            self.bracket.after, last = last, scrape(self.url, self.key)
            if last == self.bracket.after:
                break

    def _sample(self) -> None:
        mine, over = 0, 0
        while not self._stop.wait(self.every_s):
            before, mine = mine, self.in_flight()
            seen = scrape(self.url, self.key)
            running = None if seen is None else seen["running"]
            if seen is None or running is None:
                continue
            crowd = running + (seen["waiting"] or 0.0)
            # requests that began or ended while asking are allowed for on both sides
            allowed = max(before, mine, self.in_flight())
            self.bracket.samples += 1
            self.bracket.most_running = max(self.bracket.most_running, crowd)
            # one sample may be a gauge that lags; two in a row are another client
            over = over + 1 if crowd > allowed else 0
            if over >= 2:
                self.bracket.crowded.append({"on_server": crowd, "from_here": float(allowed)})


def contamination(bracket: Bracket, sent: dict[str, int | None]) -> dict[str, Any]:
    """Whether another client was there: `clean`, `contaminated` or `unknown`, with the figures.

    `sent`: what this client knows of itself: requests, prompt_tokens, generation_tokens.
    """
    reasons: list[str] = []
    unknown: list[str] = []
    if bracket.before is None or bracket.after is None:
        unknown.append("the server gives no metrics endpoint")
    else:
        for what in ("requests", "prompt_tokens", "generation_tokens"):
            moved, mine = bracket.moved(what), sent.get(what)
            if moved is None:
                unknown.append(f"the server does not count {what}, or was restarted")
            elif mine is None:
                unknown.append(f"this client does not know its own {what}")
            elif moved != mine:
                reasons.append(f"{what} moved by {moved:.0f}, sent from here {mine}")
        if bracket.before["running"] is None:
            unknown.append("the server does not tell running requests")
        if bracket.crowded:
            worst = max(bracket.crowded, key=lambda c: c["on_server"] - c["from_here"])
            reasons.append(
                f"{worst['on_server']:.0f} requests on the server with {worst['from_here']:.0f} "
                f"from here ({len(bracket.crowded)} of {bracket.samples} samples)"
            )
    verdict = "contaminated" if reasons else "unknown" if unknown else "clean"
    # what another client distorts; what counts only this client's own tokens after the first
    # chunk, and kernel figures per step, stand
    invalid = ["ttft", "acceptance", "throughput"] if reasons else []
    return {"verdict": verdict, "reasons": reasons, "unknown": unknown, "invalid_figures": invalid}


def acceptance(bracket: Bracket) -> dict[str, Any]:
    """Accepted / drafted tokens and mean length 1 + accepted / drafts, by the server's counters."""
    drafts, drafted = bracket.moved("drafts"), bracket.moved("drafted_tokens")
    accepted = bracket.moved("accepted_tokens")
    if drafts is None or drafted is None or accepted is None:
        return {"rate": None, "why": "the server does not report speculative decoding counters"}
    if not drafts or not drafted:
        return {"rate": None, "why": "nothing was drafted"}
    return {
        "rate": accepted / drafted,
        "mean_length": 1 + accepted / drafts,
        "drafts": drafts,
        "drafted_tokens": drafted,
        "accepted_tokens": accepted,
    }
