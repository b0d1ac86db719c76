"""From the table of copy launches to counts of misses: the walk through this room.

copies -> structure -> traffic beside them -> clusters -> names -> counts -> aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from lanescope.attribution.copies import counts, levels, mixture, structure, traffic
from lanescope.attribution.copies.law import Facts
from lanescope.attribution.copies.mixture import Floats

#: layer-steps that the levels are learnt from, and that they settle on
LEARN_FROM, SETTLE_ON = 1600, 5000
#: namings less probable than this do not enter the answer
NAMING_FROM = 0.003
#: law misfit (per level and tensor, squared sigmas) beyond which the levels follow no law
STRANGE = 4.0


@dataclass(frozen=True)
class Stated:
    """What the profile (or the user) states about the row copies; everything optional."""

    tensors: tuple[str, ...] | None = None
    row_bytes: dict[str, int] | None = None
    layers: int | None = None
    routed_rows: int | None = None
    #: the launch grid's first dimension is the routed rows (so for masked_row_copy)
    rows_in_grid: bool = True
    link_peak: float | None = None
    link_peak_basis: str = ""


@dataclass
class Group:
    """One process on one device: its layer-steps and everything learnt about them."""

    process: int
    device: int
    steps: structure.LayerSteps
    named: levels.Named
    chain: counts.Chain
    answer: counts.Counts
    #: (probability, counts) of every naming that enters the answer, the best first
    answers: list[tuple[float, counts.Counts]]
    facts: Facts
    routed_basis: str
    grids: list[list[int]]
    strange: bool
    contradictions: list[str] = field(default_factory=list)


def tensor_names(stated: Stated, copies: int) -> tuple[str, ...]:
    """Names of the tensors in launch order."""
    if stated.tensors and len(stated.tensors) == copies:
        return stated.tensors
    return tuple(f"copy{i}" for i in range(copies))


def groups(copies: pd.DataFrame, memory: pd.DataFrame, busy: Floats, stated: Stated) -> list[Group]:
    """Estimate every process and device apart.

    `copies`: one row a launch of a verification step, columns process, device, step, start_ns,
    duration_ns, grid_x, grid_y, grid_z and, where known, layer, between (kernels launched since the
    copy before), measured, request. `memory`: one row a memory operation (`traffic.link_share`).
    `busy`: share of each copy's time in which other kernels ran.
    """
    copies = copies.reset_index(drop=True)
    shared = traffic.link_share(copies, memory)
    reference = traffic.plain_copy_rate(memory)
    cuts = []
    for (process, device), places in traffic.places(copies, ["process", "device"]):
        some = copies if isinstance(places, slice) else copies.iloc[places]
        cut = _cut(int(process), int(device), some, shared, busy, stated)
        if cut is not None:
            cuts.append(cut)
        del some
    del copies, shared, busy  # the largest tables of all: what follows needs the room
    found = (_group(cut, stated, reference) for cut in cuts)
    return [group for group in found if group is not None]


@dataclass(frozen=True)
class _Cut:
    """The layer-steps of one process and device, and what else their copies tell."""

    process: int
    device: int
    steps: structure.LayerSteps
    seen: counts.Observed
    grids: list[list[int]]
    #: routed rows, what told them, and what contradicts them
    routed: tuple[int | None, str, list[str]]


def _cut(
    process: int,
    device: int,
    some: pd.DataFrame,
    shared: Floats,
    busy: Floats,
    stated: Stated,
) -> _Cut | None:
    order = some if _in_order(some) else some.sort_values(["step", "start_ns"], kind="stable")
    learnt = structure.learn(order, len(stated.tensors) if stated.tensors else None, stated.layers)
    steps = structure.assemble(order, learnt)
    if not len(steps.ns):
        return None
    at = order.index.to_numpy()[steps.rows]
    log_ns = np.where(steps.ns > 0, steps.ns, np.nan)
    seen = counts.Observed(
        np.log(np.maximum(log_ns, 1.0, out=log_ns), out=log_ns),
        shared[at],
        busy[at],
        pd.factorize(steps.frame["layer"])[0],
    )
    grids, routed = _grids(order, steps), _routed(order, stated)
    return _Cut(process, device, replace(steps, rows=steps.rows[:0]), seen, grids, routed)


def _in_order(some: pd.DataFrame) -> bool:
    """Whether the copies are in order of step and start already, as the SQL gives them."""
    step, start = some.step.to_numpy(), some.start_ns.to_numpy()
    later = (step[1:] > step[:-1]) | ((step[1:] == step[:-1]) & (start[1:] >= start[:-1]))
    return bool(later.all())


def _group(cut: _Cut, stated: Stated, reference: tuple[float, str] | None) -> Group | None:
    steps, seen = cut.steps, cut.seen
    names = tensor_names(stated, steps.ns.shape[1])
    routed, basis, warnings = cut.routed
    row_bytes = None
    if stated.row_bytes and all(n in stated.row_bytes for n in names):
        row_bytes = tuple(stated.row_bytes[n] for n in names)
    peak = stated.link_peak or (reference[0] if reference else None)
    facts = Facts(routed, row_bytes, peak)
    found = mixture.find(*_sample(seen))
    named = levels.name(found, facts)
    if not named.namings and routed is not None and not stated.routed_rows:
        # the grid's first dimension cannot be the routed rows: more levels than that were seen
        facts, basis = Facts(None, row_bytes, peak), ""
        named = levels.name(found, facts)
    if not named.namings:
        return None
    named = _open_top(named, found, facts)
    chain, answer, means = _answer(seen, found, named, facts)
    best = named.best
    size = max(1, len({x for x in best.labels if x > 0}) * steps.ns.shape[1])
    strange = -best.score / size > STRANGE
    return Group(
        cut.process,
        cut.device,
        steps,
        named,
        chain,
        answer,
        means,
        facts,
        basis,
        cut.grids,
        strange,
        [*steps.structure.contradictions, *warnings],
    )


def _open_top(named: levels.Named, found: mixture.Clusters, facts: Facts) -> levels.Named:
    """Let the highest level stand for all counts above it when more of them must be in it.

    Rows miss more or less independently, so next to n layer-steps with t - 1 misses and N with t
    there should be about N * N / (4 * n) with t + 1, or more. When so many are nowhere to be seen
    and the link is not yet full at t, they are in the level of t.
    """
    out = []
    for naming in named.namings:
        labels = np.array(naming.labels)
        top = int(labels.max())
        highest = facts.routed_rows or 2 * top + 2
        size = float(found.members[labels == top].sum())
        below = max(float(found.members[labels == top - 1].sum()), 0.5)
        moving = len(set(labels[labels > 0].tolist()))
        full = moving > 1 and top > 1.25 * float(naming.law.knee.min())
        hidden = top >= 1 and size**2 / (4 * below) > 10 and not full and top < highest
        if hidden:
            naming = replace(naming, spread=((top, highest),))
        elif _hides_counts(naming, found, facts):
            lowest = min(x for x in labels.tolist() if x > 0)
            naming = replace(naming, spread=((lowest, highest),))
        out.append(naming)
    return levels.Named(found, out)


def _hides_counts(naming: levels.Naming, found: mixture.Clusters, facts: Facts) -> bool:
    """Whether the levels below a full link are too few for how the counts should vary."""
    labels = np.array(naming.labels)
    named = labels >= 0
    if naming.spread or not (labels > 0).any():
        return False
    full_from_the_start = naming.law.knee.max() < 0.8 * labels[labels > 0].min()
    narrow = levels.too_narrow(labels[named], found.members[named], facts.routed_rows)
    return narrow and not (full_from_the_start and len(set(labels[labels > 0].tolist())) > 1)


def _grids(order: pd.DataFrame, steps: structure.LayerSteps) -> list[list[int]]:
    """The grid of each copy of a layer-step, [] where it changes."""
    out = []
    for rows in steps.rows.T:
        cells = [order[c].to_numpy()[rows] for c in ("grid_x", "grid_y", "grid_z")]
        same = all((c == c[0]).all() for c in cells)
        out.append([int(c[0]) for c in cells] if same else [])
    return out


def _routed(order: pd.DataFrame, stated: Stated) -> tuple[int | None, str, list[str]]:
    """Routed rows of a layer-step: stated, or the first dimension of the copies' grids."""
    widths = order.grid_x.unique()
    in_grid = int(widths[0]) if stated.rows_in_grid and len(widths) == 1 and widths[0] > 1 else None
    if stated.rows_in_grid and len(widths) > 1:
        in_grid = int(widths.max())
    if stated.routed_rows:
        if in_grid and in_grid != stated.routed_rows:
            return (
                stated.routed_rows,
                "stated",
                [f"{stated.routed_rows} routed rows are stated, the copies' grids hold {in_grid}"],
            )
        return stated.routed_rows, "stated", []
    return in_grid, "first grid dimension of the copies" if in_grid else "", []


def _sample(seen: counts.Observed) -> tuple[Floats, Floats]:
    """Layer-steps to learn the levels from: calm ones if there are enough, not too many."""
    whole = np.asarray(~np.isnan(seen.log_ns).any(axis=1))
    rows = np.flatnonzero(seen.calm & whole)
    if len(rows) < min(100, 0.2 * len(whole)):
        rows = np.flatnonzero(whole)
    if len(rows) > LEARN_FROM:
        rows = np.sort(np.random.default_rng(0).choice(rows, LEARN_FROM, replace=False))
    y = seen.log_ns[rows]
    shared = seen.link[rows] >= counts.SHARED_FROM
    return y, np.where(shared, 0.5, counts.SLOW_UNSEEN)


def _answer(
    seen: counts.Observed, found: mixture.Clusters, named: levels.Named, facts: Facts
) -> tuple[counts.Chain, counts.Counts, list[tuple[float, counts.Counts]]]:
    """Read all layer-steps under every believable naming; the best one's levels are kept."""
    fit = seen
    if len(seen.log_ns) > SETTLE_ON:
        rows = np.random.default_rng(1).choice(len(seen.log_ns), SETTLE_ON, replace=False)
        fit = seen.take(np.sort(rows))
    layers = int(seen.layer.max()) + 1
    parts, best = [], None
    for naming in named.namings:
        if naming.probability < NAMING_FROM and best is not None:
            continue
        top = max([0, *naming.labels, *(high for _, high in naming.spread)])
        top = facts.routed_rows or (top if naming.spread else top + 2)
        chain = counts.settle(fit, counts.start(found, naming, top, layers))
        parts.append((naming.probability, counts.count(seen, chain)))
        best = best or chain
    assert best is not None
    total = sum(p for p, _ in parts)
    parts = [(p / total, c) for p, c in parts]
    return best, counts.mixed(parts), parts
