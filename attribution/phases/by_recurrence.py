"""Phases and steps without NVTX: from what recurs.

Decode is the work that comes back every step. With CUDA graphs the graphs tell: a *pass* is the
stretch of graph launches (and the eager launches that follow them) between two blocking waits.
Without graphs it is the eager unit whose fingerprint recurs with the most kernels. A small graph
or unit that comes back after each pass, on its own, is the draft. What lies between passes is
prefill when it is as large as a pass, an eager verification step when its fingerprint is a pass's,
and outside otherwise. Work before the first pass of a process whose start the trace shows
(initialisation, graph capture) cannot be told from warm-up and stays outside.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from lanescope.attribution.ingest.ids import Ints
from lanescope.attribution.phases.units import Units, Work, make_units

#: A class of work must come back this often to be a step.
MIN_STEPS = 3
#: A draft is at most this share of a pass, in kernels and in time.
DRAFT_SHARE = 0.25
#: Work between passes of at least this share of a pass, in kernels or time, is a model pass.
PREFILL_SHARE = 0.25

#: A graph that replays less often than this share of the steps is no part of every step ...
RARE_SHARE = 0.3
#: ... and is a prefill when it runs this much longer than a step.
PREFILL_FACTOR = 2.0

GRAPH, PATTERN = "graph replay", "recurrence"


@dataclass
class Stretch:
    """A run of launches [first, stop) of one phase, in positions of `Work`."""

    first: int
    stop: int
    phase: str
    part: str
    evidence: str


@dataclass
class Inferred:
    """What could be told, or why nothing could."""

    stretches: list[Stretch] = field(default_factory=list)
    reason: str = ""
    evidence: str = ""


def infer(
    work: Work, syncs: Ints, inputs: Ints, startup_ns: int | None, host_known: bool = True
) -> Inferred:
    """Phases of one process's launches.

    `startup_ns` is the host time of the first initialisation or graph capture call, None when the
    trace shows none. `host_known` is false for launches rebuilt from correlation ids.
    """
    units = make_units(work, syncs, inputs)
    if len(units) == 0:
        return Inferred(reason="no launches with device work")
    graphs = Counter(int(g) for g in units.graph if g > 0)
    recurring = {g for g, n in graphs.items() if n >= MIN_STEPS}
    if recurring:
        return _Passes(work, units, startup_ns).from_graphs(recurring)
    if not host_known:
        return Inferred(reason="without API calls or graph replays, passes cannot be told apart")
    return _Passes(work, units, startup_ns).from_units()


def _decode_graph(time: Counter[int], count: Counter[int]) -> int:
    """Of the graphs that replay often, the one with the most time: a decode pass's main part."""
    most = max(count.values())
    often = [g for g in count if count[g] >= RARE_SHARE * most]
    return max(often, key=lambda g: time[g])


class _Passes:
    """Walks the units once, in order; state is the open pass and the units since the last one."""

    def __init__(self, work: Work, units: Units, startup_ns: int | None) -> None:
        self.work, self.units, self.startup = work, units, startup_ns
        self.out: list[Stretch] = []
        self.pending: list[tuple[int, int]] = []  # launches [first, stop)
        self.seen_pass = False
        self.pass_print: int | None = None
        self.pass_kernels = self.pass_gpu = 0.0
        self.draft_prints: dict[int, int] = {}  # fingerprint -> launches
        self.evidence = GRAPH

    # -- with graphs -----------------------------------------------------------------------

    def from_graphs(self, recurring: set[int]) -> Inferred:
        units = self.units
        draft = self._draft_graphs(recurring)
        main = recurring - draft - self._prefill_graphs(recurring - draft)
        if not main:
            return Inferred(reason="no CUDA graph recurs like a verification step")
        passes = self._group_passes(main, draft)
        if len(passes) < MIN_STEPS:
            return Inferred(reason="fewer than three passes recur")
        totals = [self._sum(p) for p in passes]
        prints = Counter(t[0] for t in totals)
        self.pass_print = prints.most_common(1)[0][0]
        self.pass_kernels = float(np.median([t[1] for t in totals]))
        self.pass_gpu = float(np.median([t[2] for t in totals]))
        if any(units.graph[u] > 0 and units.kernels[u] == 0 for u in passes[0]):
            self.pass_kernels = float("inf")  # graphs traced as blocks: only time compares
            self.pass_print = None
        for u in range(len(units)):
            if int(units.graph[u]) in draft:  # eager, the same work is one launch a kernel
                self.draft_prints[int(units.print_[u])] = int(units.kernels[u])
        tail = self._usual_tail(passes)
        owner = {u: i for i, p in enumerate(passes) for u in p}
        done: set[int] = set()
        for u in range(len(units)):
            if u in owner:
                if owner[u] not in done:
                    done.add(owner[u])
                    self._close_gap()
                    self.seen_pass = True
                    first, stop, end = self._bounds(passes[owner[u]], tail)
                    self.out.append(Stretch(first, stop, "decode", "verify", GRAPH))
                    if stop < end:
                        self.pending.append((stop, end))
            elif int(units.graph[u]) in draft:
                self._close_gap()
                self._add_draft(u)
            else:
                self._leave(u)
        self._close_gap()
        return Inferred(self.out, evidence=GRAPH)

    def _draft_graphs(self, recurring: set[int]) -> set[int]:
        """Small graphs that follow a wait, or another draft, and end before the next inputs."""
        units = self.units
        time: Counter[int] = Counter()
        count: Counter[int] = Counter()
        alone: Counter[int] = Counter()
        graph_units = [u for u in range(len(units)) if int(units.graph[u]) in recurring]
        for at, u in enumerate(graph_units):
            g = int(units.graph[u])
            time[g] += int(units.gpu_ns[u])
            count[g] += 1
            after_wait = bool(units.sync_before[u]) and not bool(units.input_before[u])
            again = at > 0 and int(units.graph[graph_units[at - 1]]) == g
            nxt = graph_units[at + 1] if at + 1 < len(graph_units) else None
            ends = nxt is None or bool(
                units.sync_before[u + 1 : nxt + 1].any()
                or units.input_before[u + 1 : nxt + 1].any()
            )
            alone[g] += (after_wait or again) and (ends or int(units.graph[nxt or u]) == g)
        biggest = _decode_graph(time, count)
        per_step = time[biggest] / count[biggest]
        return {
            g
            for g in recurring
            if g != biggest
            and time[g] / count[g] <= DRAFT_SHARE * per_step
            and alone[g] >= 0.5 * count[g]
            and count[g] >= 0.5 * count[biggest]
        }

    def _tail_start(self, units: list[int]) -> int:
        """The first launch after the last graph of a pass."""
        last = max(u for u in units if self.units.graph[u] > 0)
        return int(self.units.stop[last])

    def _usual_tail(self, passes: list[list[int]]) -> tuple[int, int]:
        """(fingerprint, launches) of the eager launches that usually follow a pass's graphs."""
        tails: Counter[tuple[int, int]] = Counter()
        for units in passes:
            first, stop = self._tail_start(units), int(self.units.stop[units[-1]])
            tails[self._print(first, stop), stop - first] += 1
        return tails.most_common(1)[0][0]

    def _bounds(self, units: list[int], tail: tuple[int, int]) -> tuple[int, int, int]:
        """(first launch, end of the pass, end of its units): longer tails than usual are cut.

        Work that is launched right behind a pass, with nothing between, is not the pass's.
        """
        first, end = int(self.units.first[units[0]]), int(self.units.stop[units[-1]])
        after = self._tail_start(units)
        fingerprint, length = tail
        if end - after > length and self._print(after, after + length) == fingerprint:
            return first, after + length, end
        return first, end, end

    def _prefill_graphs(self, graphs: set[int]) -> set[int]:
        """Graphs that replay seldom and run much longer than what replays every step."""
        units = self.units
        time: Counter[int] = Counter()
        count: Counter[int] = Counter()
        for u in range(len(units)):
            g = int(units.graph[u])
            if g in graphs:
                time[g] += int(units.gpu_ns[u])
                count[g] += 1
        if not count:
            return set()
        biggest = _decode_graph(time, count)
        step_ns = sum(time[g] for g in graphs if count[g] >= 0.5 * count[biggest]) / count[biggest]
        return {
            g
            for g in graphs
            if count[g] < RARE_SHARE * count[biggest]
            and time[g] / count[g] > PREFILL_FACTOR * step_ns
        }

    def _group_passes(self, main: set[int], draft: set[int]) -> list[list[int]]:
        """Units of each pass: graphs up to a wait or a draft, and the eager units after them.

        Where most stretches between waits replay the same graphs, that is one pass, even if one
        graph replays several times in it (a graph a layer). A stretch that holds several such
        passes is cut into them; without a usual stretch a graph that comes again begins a pass.
        """
        stretches = self._stretches_of_graphs(main, draft, at_inputs=False)
        usual, regular = self._usual_shape(stretches, main)
        finer = self._stretches_of_graphs(main, draft, at_inputs=True)
        shape, also_regular = self._usual_shape(finer, main)
        # A host that runs ahead waits once in many passes; each still begins with its inputs.
        several = len(usual) > len(shape) and usual == shape * (len(usual) // len(shape))
        if also_regular and (several or not regular):
            stretches, usual, regular = finer, shape, True
        passes: list[list[int]] = []
        for stretch in stretches:
            seen: list[int] = []
            for u in stretch:
                g = int(self.units.graph[u])
                if g in main:
                    full = tuple(seen) == usual if regular else g in seen
                    again = regular and len(set(usual)) == len(usual) and g in seen
                    if not seen or full or again:
                        passes.append([])
                        seen = []
                    seen.append(g)
                passes[-1].append(u)
        return passes

    def _usual_shape(
        self, stretches: list[list[int]], main: set[int]
    ) -> tuple[tuple[int, ...], bool]:
        """The graphs that most stretches replay, in order, and whether at least half of them do."""
        graph = self.units.graph
        shapes = Counter(
            tuple(int(graph[u]) for u in s if int(graph[u]) in main) for s in stretches
        )
        usual, often = shapes.most_common(1)[0]
        return usual, often >= max(MIN_STEPS, 0.5 * len(stretches))

    def _stretches_of_graphs(
        self, main: set[int], draft: set[int], at_inputs: bool
    ) -> list[list[int]]:
        """Units from a main graph to the next wait, draft or (if wanted) inputs of a main graph."""
        units = self.units
        stretches: list[list[int]] = []
        is_open = False
        for u in range(len(units)):
            g = int(units.graph[u])
            if units.sync_before[u] or g in draft or (at_inputs and units.input_before[u]):
                is_open = False
            if g in main:
                if not is_open:
                    stretches.append([])
                    is_open = True
                stretches[-1].append(u)
            elif is_open and g == 0 and not units.input_before[u]:
                stretches[-1].append(u)
        return stretches

    # -- without graphs ----------------------------------------------------------------------

    def from_units(self) -> Inferred:
        self.evidence = PATTERN
        units = self.units
        classes = self._classes()
        count = Counter(classes)
        kernels: Counter[int] = Counter()
        gpu: Counter[int] = Counter()
        for c, k, t in zip(classes, units.kernels.tolist(), units.gpu_ns.tolist(), strict=True):
            kernels[c] += k
            gpu[c] += t
        often = [c for c, n in count.items() if n >= MIN_STEPS]
        if not often:
            return Inferred(reason="no run of launches comes back three times")
        main = max(often, key=lambda c: kernels[c])
        self.pass_kernels = kernels[main] / count[main]
        self.pass_gpu = gpu[main] / count[main]
        if self.pass_kernels < 8:
            return Inferred(reason="what recurs is too small to be a verification step")
        follows = Counter(classes[u] for u in range(1, len(units)) if classes[u - 1] == main)
        drafts = {
            c
            for c in often
            if c != main
            and kernels[c] / count[c] <= DRAFT_SHARE * self.pass_kernels
            and follows[c] >= 0.5 * count[main]
        }
        for u, c in enumerate(classes):
            if c in drafts:
                self.draft_prints[int(units.print_[u])] = int(units.stop[u] - units.first[u])
        self.pass_print = None  # a pass is its class here, not one fingerprint
        for u, c in enumerate(classes):
            if c == main:
                self._close_gap()
                self.seen_pass = True
                self._add([u], "decode", "verify", PATTERN)
            else:
                self._leave(u)
        self._close_gap()
        return Inferred(self.out, evidence=PATTERN)

    def _classes(self) -> list[int]:
        """The class of each unit: its exact fingerprint where those recur, else names and size."""
        units = self.units
        exact: list[int] = units.print_.tolist()
        often = {c for c, n in Counter(exact).items() if n >= MIN_STEPS}
        covered = sum(int(k) for c, k in zip(exact, units.kernels, strict=True) if c in often)
        if covered >= 0.3 * int(units.kernels.sum()):
            return exact
        # Grids that follow the context length never repeat: names, and the order of magnitude
        scale = np.round(np.log2(np.maximum(units.blocks, 1))).astype(np.int64)
        with np.errstate(over="ignore"):
            loose: Ints = units.print_names * np.int64(1_000_003) + scale
        return loose.tolist()  # type: ignore[no-any-return]

    def _draft_prefix(self, first: int, stop: int) -> int:
        """How many launches at the start are a draft (all, or nothing separates them)."""
        for fingerprint, length in self.draft_prints.items():
            if length <= stop - first and self._print(first, first + length) == fingerprint:
                return length
        return 0

    def _print(self, first: int, stop: int) -> int:
        """The fingerprint of launches [first, stop)."""
        with np.errstate(over="ignore"):
            return int(self.work.print_[first:stop].sum())

    def _leave(self, u: int) -> None:
        """Keep a unit for `_close_gap`; units that follow each other are one stretch."""
        first, stop = int(self.units.first[u]), int(self.units.stop[u])
        if self.pending and self.pending[-1][1] == first:
            self.pending[-1] = (self.pending[-1][0], stop)
        else:
            self.pending.append((first, stop))

    # -- shared ------------------------------------------------------------------------------

    def _sum(self, units: list[int]) -> tuple[int, int, int]:
        """(fingerprint, kernels, GPU ns) of some units together."""
        with np.errstate(over="ignore"):
            fingerprint = int(self.units.print_[units].sum())
        return (
            fingerprint,
            int(self.units.kernels[units].sum()),
            int(self.units.gpu_ns[units].sum()),
        )

    def _add(self, units: list[int], phase: str, part: str, evidence: str) -> None:
        self.out.append(
            Stretch(
                int(self.units.first[units[0]]),
                int(self.units.stop[units[-1]]),
                phase,
                part,
                evidence,
            )
        )

    def _add_draft(self, u: int) -> None:
        """Add a draft; drafts in a row are one."""
        first, stop = int(self.units.first[u]), int(self.units.stop[u])
        last = self.out[-1] if self.out else None
        if last is not None and last.part == "draft" and last.stop == first:
            last.stop = stop
            return
        self.out.append(Stretch(first, stop, "decode", "draft", self.evidence))

    def _close_gap(self) -> None:
        """Decide what the launches since the last pass or draft were."""
        pending, self.pending = self.pending, []
        for first, stop in pending:
            run: list[tuple[int, int]] = []  # launches that are neither pass nor draft
            for a, b, is_pass in self._eager_passes(first, stop):
                if is_pass:
                    self._decide(run)
                    run = []
                    self.seen_pass = True
                    self.out.append(Stretch(a, b, "decode", "verify", PATTERN))
                    continue
                cut = self._draft_prefix(a, b) if self.seen_pass else 0
                if cut:
                    self._decide(run)
                    run = []
                    self.out.append(Stretch(a, a + cut, "decode", "draft", PATTERN))
                if a + cut < b:
                    run.append((a + cut, b))
            self._decide(run)

    def _eager_passes(self, first: int, stop: int) -> list[tuple[int, int, bool]]:
        """Cut launches into passes that ran eagerly and what lies between them.

        A pass that runs eagerly is one launch a kernel; its launches are found by the sum of their
        fingerprints over a window of that length.
        """
        size = 0 if self.pass_print is None else round(self.pass_kernels)
        if size <= 0 or stop - first < size:
            return [(first, stop, False)]
        with np.errstate(over="ignore"):
            sums = np.concatenate([[0], np.cumsum(self.work.print_[first:stop])])
            hits = np.flatnonzero(sums[size:] - sums[:-size] == self.pass_print)
        out: list[tuple[int, int, bool]] = []
        at = first
        for hit in (hits + first).tolist():
            if hit < at:
                continue
            if hit > at:
                out.append((at, hit, False))
            out.append((hit, hit + size, True))
            at = hit + size
        if at < stop:
            out.append((at, stop, False))
        return out

    def _decide(self, run: list[tuple[int, int]]) -> None:
        """Prefill, when the launches between passes are as much work as a model pass."""
        if not run:
            return
        first, stop = run[0][0], run[-1][1]
        before_pass = int(self.work.start_ns[min(stop, len(self.work.start_ns) - 1)])
        if not self.seen_pass and self.startup is not None and self.startup <= before_pass:
            return  # start-up: cannot be told from a request
        kernels = sum(int(self.work.kernels[a:b].sum()) for a, b in run)
        gpu = sum(int(self.work.gpu_ns[a:b].sum()) for a, b in run)
        if kernels < PREFILL_SHARE * self.pass_kernels and gpu < PREFILL_SHARE * self.pass_gpu:
            return
        self.out.append(Stretch(first, stop, "prefill", "", PATTERN))
