"""Launches grouped into units, for traces whose ranges say nothing about phases.

A unit is one graph launch, or a run of eager launches between two breaks; a break is a blocking
wait of the host, a host-to-device copy (inputs of the next pass), or a graph launch. Units are
compared by fingerprint: a sum over their kernels of a hash of (name, grid), so that the same work
has the same fingerprint whether it ran eagerly or from a graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.ingest.ids import Ints


@dataclass(frozen=True)
class Work:
    """Device work by launch, in order of host start, for one process. One element a launch."""

    row: Ints  # position in the trace's launches
    start_ns: Ints
    end_ns: Ints
    kernels: Ints
    gpu_ns: Ints
    graph: Ints  # identity of the graph, 0 for an eager launch
    print_: Ints  # fingerprint over (name, grid)
    print_names: Ints  # fingerprint over names alone
    blocks: Ints  # thread blocks launched

    def take(self, rows: NDArray[np.bool_] | Ints) -> Work:
        """The launches at `rows`."""
        return Work(*(getattr(self, f)[rows] for f in self.__dataclass_fields__))


@dataclass(frozen=True)
class Units:
    """Units in order of host start. One element a unit; `first` and `stop` index launches."""

    first: Ints
    stop: Ints
    graph: Ints
    kernels: Ints
    gpu_ns: Ints
    print_: Ints
    print_names: Ints
    blocks: Ints
    sync_before: NDArray[np.bool_]
    input_before: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.first)


def make_units(work: Work, syncs: Ints, inputs: Ints) -> Units:
    """Group launches. `syncs` and `inputs` are the host start times of waits and input copies."""
    n = len(work.start_ns)
    waited = np.searchsorted(syncs, work.start_ns)
    copied = np.searchsorted(inputs, work.start_ns)
    sync_before = np.ones(n, dtype=bool)
    input_before = np.zeros(n, dtype=bool)
    sync_before[1:] = waited[1:] != waited[:-1]
    input_before[1:] = copied[1:] != copied[:-1]
    if n:
        sync_before[0] = True
        input_before[0] = copied[0] > 0
    is_graph = work.graph > 0
    cut = sync_before | input_before | is_graph
    cut[1:] |= is_graph[:-1]
    first = np.flatnonzero(cut)
    stop = np.append(first[1:], n)

    def total(values: Ints) -> Ints:
        with np.errstate(over="ignore"):  # fingerprints wrap around on purpose
            out: Ints = np.add.reduceat(values, first) if len(first) else values[:0]
        return out

    return Units(
        first=first,
        stop=stop,
        graph=work.graph[first],
        kernels=total(work.kernels),
        gpu_ns=total(work.gpu_ns),
        print_=total(work.print_),
        print_names=total(work.print_names),
        blocks=total(work.blocks),
        sync_before=sync_before[first],
        input_before=input_before[first],
    )
