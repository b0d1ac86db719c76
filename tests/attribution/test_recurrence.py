"""Passes from what recurs, on launch sequences of engines that the bundled traces do not show.

A sequence is written as it happens on the host; every launch says which phase it truly is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from lanescope.attribution.phases.by_recurrence import infer
from lanescope.attribution.phases.units import Work


@dataclass
class Host:
    """Launches, waits and input copies in order, 10 us apart."""

    now: int = 1_000
    rows: list[tuple[int, int, int, int, int, str]] = field(default_factory=list)
    syncs: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    startup: int | None = None

    def _launch(self, kernels: int, gpu_ns: int, graph: int, mark: int, truth: str) -> None:
        self.rows.append((self.now, kernels, gpu_ns, graph, mark, truth))
        self.now += 10

    def graph(self, number: int, kernels: int, gpu_ns: int, truth: str) -> Host:
        # a graph's print is the sum of its kernels' prints
        self._launch(kernels, gpu_ns, number, sum(100 * number + k for k in range(kernels)), truth)
        return self

    def eager(self, name: int, kernels: int, gpu_ns: int, truth: str) -> Host:
        """The same kernels as graph `name`, one launch each."""
        for k in range(kernels):
            self._launch(1, gpu_ns // kernels, 0, 100 * name + k, truth)
        return self

    def wait(self) -> Host:
        self.syncs.append(self.now)
        self.now += 10
        return self

    def copy_inputs(self) -> Host:
        self.inputs.append(self.now)
        self.now += 10
        return self

    def score(self) -> tuple[float, int]:
        """(share of GPU time with the right phase and part, verification steps found)."""
        start, kernels, gpu, graph, prints, truth = (list(c) for c in zip(*self.rows, strict=True))
        n = len(start)

        def ints(values: list[int]) -> np.ndarray:
            return np.array(values, dtype=np.int64)

        work = Work(
            ints(list(range(n))), ints(start), ints(start) + 5, ints(kernels), ints(gpu),
            ints(graph), ints(prints), ints(prints), ints(kernels),
        )  # fmt: skip
        found = infer(work, ints(self.syncs), ints(self.inputs), self.startup)
        said = ["outside"] * n
        for s in found.stretches:
            said[s.first : s.stop] = [s.part or s.phase] * (s.stop - s.first)
        right = sum(g for g, a, b in zip(gpu, said, truth, strict=True) if a == b)
        return right / sum(gpu), sum(1 for s in found.stretches if s.part == "verify")


def prefill(host: Host, chunks: int = 1) -> None:
    for _ in range(chunks):
        host.copy_inputs().eager(7, 60, 60_000, "prefill").wait()


def test_a_graph_a_layer_replayed_many_times_in_a_pass() -> None:
    host = Host()
    for _ in range(3):
        prefill(host)
        for _ in range(20):
            host.copy_inputs()
            for _ in range(12):
                host.graph(1, 10, 900, "verify").eager(2, 1, 90, "verify")
            host.wait()
    assert host.score() == (1.0, 60)


def test_piecewise_graphs_with_eager_attention_between() -> None:
    host = Host()
    prefill(host)
    for _ in range(30):
        host.copy_inputs()
        for layer in range(8):
            host.graph(10 + layer, 9, 800, "verify").eager(3, 1, 100, "verify")
        host.eager(4, 3, 60, "verify").wait()
    assert host.score() == (1.0, 30)


def test_a_host_that_runs_ahead_without_waiting() -> None:
    host = Host()
    prefill(host)
    for _ in range(40):
        host.copy_inputs().graph(1, 50, 5_000, "verify").graph(2, 50, 5_000, "verify")
    host.wait()
    assert host.score() == (1.0, 40)


def test_a_wait_every_third_step() -> None:
    host = Host()
    prefill(host)
    for _ in range(15):
        for _ in range(3):
            host.copy_inputs().graph(1, 50, 5_000, "verify").graph(2, 50, 5_000, "verify")
        host.wait()
    assert host.score()[1] == 45


def test_a_prefill_that_runs_from_a_graph() -> None:
    host = Host()
    for _ in range(5):
        host.copy_inputs().graph(9, 60, 60_000, "prefill").wait()
        for _ in range(30):
            host.copy_inputs().graph(1, 50, 5_000, "verify").eager(4, 3, 60, "verify").wait()
            host.graph(5, 6, 100, "draft")
    assert host.score() == (1.0, 150)


def test_batches_of_several_sizes_each_with_its_graph() -> None:
    host = Host()
    prefill(host)
    for i in range(60):
        size = 1 + i % 4
        host.copy_inputs().graph(10 * size, 50, 5_000 + 500 * size, "verify").wait()
    assert host.score() == (1.0, 60)


@pytest.mark.parametrize("drafts", [0, 1, 3])
def test_drafts_after_each_pass(drafts: int) -> None:
    host = Host()
    for _ in range(3):
        prefill(host)
        for _ in range(25):
            host.copy_inputs().graph(1, 40, 4_000, "verify").graph(2, 41, 4_000, "verify")
            host.eager(4, 4, 80, "verify").wait()
            for _ in range(drafts):
                host.graph(5, 8, 60, "draft")
    assert host.score() == (1.0, 75)


def test_chunked_prefill_over_three_passes_between_steps() -> None:
    host = Host()
    for _ in range(4):
        prefill(host, chunks=3)
        for _ in range(20):
            host.copy_inputs().graph(1, 50, 5_000, "verify").wait()
    assert host.score() == (1.0, 80)


def test_prefill_right_behind_the_sampling_of_a_pass() -> None:
    host = Host()
    prefill(host)
    for i in range(40):
        host.copy_inputs().graph(1, 50, 5_000, "verify").eager(4, 4, 80, "verify")
        if i % 10 == 9:
            host.eager(7, 60, 60_000, "prefill")
        host.wait()
    assert host.score() == (1.0, 40)


def test_steps_that_fall_back_to_eager() -> None:
    host = Host()
    prefill(host)
    for i in range(40):
        host.copy_inputs()
        if i % 7 == 6:
            host.eager(1, 50, 5_000, "verify")
        else:
            host.graph(1, 50, 5_000, "verify")
        host.eager(4, 4, 80, "verify").wait()
    assert host.score() == (1.0, 40)


def test_eager_steps_with_a_draft_and_no_graphs_at_all() -> None:
    host = Host()
    for _ in range(3):
        host.eager(7, 60, 60_000, "prefill").wait()
        for _ in range(20):
            host.copy_inputs().eager(1, 50, 5_000, "verify").wait().eager(5, 6, 100, "draft")
    assert host.score() == (1.0, 60)


def test_start_up_is_never_called_a_prefill() -> None:
    host = Host(startup=500)
    host.eager(8, 200, 90_000, "outside").wait()
    for _ in range(8):
        host.copy_inputs().graph(1, 50, 5_000, "verify").wait()
    for _ in range(3):
        prefill(host)
        for _ in range(20):
            host.copy_inputs().graph(1, 50, 5_000, "verify").wait()
    assert host.score() == (1.0, 68)


def test_a_few_stray_kernels_between_requests_are_outside() -> None:
    host = Host()
    prefill(host)
    for i in range(40):
        host.copy_inputs().graph(1, 50, 5_000, "verify").wait()
        if i % 10 == 0:
            host.eager(6, 2, 50, "outside").wait()
    assert host.score() == (1.0, 40)


def test_too_little_recurs_to_claim_anything() -> None:
    host = Host()
    host.eager(1, 50, 5_000, "outside").wait().eager(2, 60, 5_000, "outside").wait()
    host.eager(3, 70, 5_000, "outside")
    assert host.score() == (1.0, 0)
