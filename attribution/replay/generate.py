"""Routing traces with planted structure: every analysis gets a case whose answer is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb

import numpy as np
from numpy.typing import NDArray

from lanescope.attribution.replay.jit import jit, uniform
from lanescope.attribution.replay.trace import BYPASS_OVER, Ids, Ints, RoutingTrace
from lanescope.schemas.errors import UsageError


@dataclass(frozen=True)
class Recipe:
    """What to plant.

    A token's picks in a layer are drawn in this order: each pick is, with probability `repeat`, one
    of the picks of the token before; else, with probability `cross`, one of the layer above;
    else, with probability `local`, one of a working set of `working_set` experts of which one is
    replaced with probability `turnover` per token; else a fresh one, by `tiers`.

    `tiers` are (experts, share) groups of unequal popularity: shares add up to 1, sizes to
    `experts`, and within a tier all are alike. Which ids they are is drawn for each layer.
    """

    tokens: int
    layers: int
    experts: int
    top_k: int
    tokens_per_step: int = 1
    tiers: tuple[tuple[int, float], ...] = field(default=())
    repeat: float = 0.0
    cross: float = 0.0
    local: float = 0.0
    working_set: int = 0
    turnover: float = 0.0
    #: working sets grow from the first layer to the last, by this share below and above the mean
    spread: float = 0.0
    #: before every `prefill_every` steps, a prefill pass of `prefill_tokens` of the tokens
    prefill_every: int = 0
    prefill_tokens: int = 0
    first_layer: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("tokens", "layers", "experts", "top_k", "tokens_per_step"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}", "it must be 1 or more")
        if self.experts > 65_535 or self.top_k > self.experts:
            raise UsageError(
                f"top-{self.top_k} of {self.experts} experts", "give top_k <= experts <= 65535"
            )
        for name in ("repeat", "cross", "local", "turnover", "spread"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}", "it is a probability")
        if self.local and not self.top_k <= self.working_set <= self.experts:
            raise UsageError(
                f"a working set of {self.working_set}",
                f"local picks need between top_k ({self.top_k}) and {self.experts}",
            )
        if self.prefill_every and not self.prefill_tokens:
            raise UsageError("prefill passes of 0 tokens", "give prefill_tokens")
        if self.tiers:
            sizes, shares = zip(*self.tiers, strict=True)
            if sum(sizes) != self.experts or abs(sum(shares) - 1) > 1e-9:
                raise UsageError(
                    f"tiers of {sum(sizes)} experts and a share of {sum(shares):.6g}",
                    f"sizes must add up to {self.experts}, shares to 1",
                )
            if min(sizes) < self.top_k or min(shares) < 0:
                raise UsageError(
                    f"a tier of {min(sizes)} experts", f"each needs top_k ({self.top_k}) or more"
                )


def expected_overlap(recipe: Recipe, share: float) -> float:
    """Share of a token's picks found among the picks copied from, when `share` is the copying rate.

    Uniform picks and one mechanism at work: c ~ Binomial(k, share) picks are copies, and the
    k - c fresh ones meet the k - c that were not copied at the chance rate of the E - c left.
    """
    k, n = recipe.top_k, recipe.experts
    total = 0.0
    for c in range(k + 1):
        weight = comb(k, c) * share**c * (1 - share) ** (k - c)
        total += weight * (c + ((k - c) ** 2 / (n - c) if n > c else 0.0))
    return total / k


def expected_pin_hit(recipe: Recipe, slots: int) -> float:
    """Hit rate of the best static pin over routed rows: the popularity of the `slots` likeliest."""
    tiers = recipe.tiers or ((recipe.experts, 1.0),)
    hit = 0.0
    for size, share in sorted(tiers, key=lambda tier: tier[1] / tier[0], reverse=True):
        taken = min(slots, size)
        hit += share * taken / size
        slots -= taken
    return hit


def generate(recipe: Recipe) -> RoutingTrace:
    """A trace after `recipe`; the same seed gives the same trace everywhere."""
    rng = np.random.default_rng(recipe.seed)
    tiers = recipe.tiers or ((recipe.experts, 1.0),)
    bounds = np.cumsum([0, *[size for size, _ in tiers]]).astype(np.int64)
    shares = np.cumsum([share for _, share in tiers])
    experts = np.empty((recipe.layers, recipe.tokens, recipe.top_k), np.uint16)
    above = np.zeros((0, recipe.top_k), np.uint16)
    for layer in range(recipe.layers):
        by_rank = rng.permutation(recipe.experts).astype(np.uint16)
        state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        _fill(
            experts[layer],
            above,
            by_rank,
            bounds,
            shares,
            np.array([recipe.repeat, recipe.cross, recipe.local, recipe.turnover]),
            working_set_of(recipe, layer),
            state,
        )
        above = experts[layer]
    starts, prefill = _passes(recipe)
    return RoutingTrace(
        experts=experts,
        step_starts=starts,
        prefill=prefill,
        layers=tuple(range(recipe.first_layer, recipe.first_layer + recipe.layers)),
        n_experts=recipe.experts,
        step_ids=np.arange(len(prefill), dtype=np.int64),
        bypass_over=BYPASS_OVER,
        source=f"generated, seed {recipe.seed}",
    )


def working_set_of(recipe: Recipe, layer: int) -> int:
    """Experts in the working set of one layer."""
    if recipe.layers < 2:
        return recipe.working_set
    place = 2 * layer / (recipe.layers - 1) - 1  # -1 for the first layer, 1 for the last
    size = round(recipe.working_set * (1 + recipe.spread * place))
    return min(max(size, recipe.top_k), recipe.experts) if recipe.working_set else 0


def _passes(recipe: Recipe) -> tuple[Ints, NDArray[np.bool_]]:
    """Where passes begin, and which are prefill."""
    starts = [0]
    prefill: list[bool] = []
    verified = 0
    while starts[-1] < recipe.tokens:
        due = recipe.prefill_every and verified % recipe.prefill_every == 0
        if due and prefill[-1:] != [True]:
            prefill.append(True)
            starts.append(min(recipe.tokens, starts[-1] + recipe.prefill_tokens))
            continue
        verified += 1
        prefill.append(False)
        starts.append(min(recipe.tokens, starts[-1] + recipe.tokens_per_step))
    return np.array(starts, np.int64), np.array(prefill, np.bool_)


@jit
def _copy_some(
    out: Ids, n: int, source: Ids, share: float, taken: Ints, mark: int, state: NDArray[np.uint64]
) -> int:
    """Give each open pick, with probability `share`, an untaken member of `source`."""
    k = len(out)
    wanted = 0
    for _ in range(k - n):
        if uniform(state) < share:
            wanted += 1
    free = 0
    for e in source:
        if taken[e] != mark:
            free += 1
    while wanted > 0 and free > 0:
        e = source[int(uniform(state) * len(source))]
        if taken[e] == mark:
            continue
        taken[e] = mark
        out[n] = e
        n += 1
        wanted -= 1
        free -= 1
    return n


@jit
def _fill(
    out: Ids,
    above: Ids,
    by_rank: Ids,
    bounds: Ints,
    shares: NDArray[np.float64],
    rates: NDArray[np.float64],
    working_set: int,
    state: NDArray[np.uint64],
) -> None:
    """Draw one layer's picks into `out` (tokens, top-k)."""
    n_experts = len(by_rank)
    taken = np.full(n_experts, -1, np.int64)
    inside = np.zeros(n_experts, np.bool_)
    members = by_rank[n_experts - working_set :].copy()
    for e in members:
        inside[e] = True
    for t in range(out.shape[0]):
        n = 0
        if t > 0 and rates[0] > 0:
            n = _copy_some(out[t], n, out[t - 1], rates[0], taken, t, state)
        if len(above) > 0 and rates[1] > 0:
            n = _copy_some(out[t], n, above[t], rates[1], taken, t, state)
        if working_set > 0:
            if working_set < n_experts and uniform(state) < rates[3]:
                leaving = int(uniform(state) * working_set)
                joining = by_rank[int(uniform(state) * n_experts)]
                while inside[joining]:
                    joining = by_rank[int(uniform(state) * n_experts)]
                inside[members[leaving]] = False
                inside[joining] = True
                members[leaving] = joining
            n = _copy_some(out[t], n, members, rates[2], taken, t, state)
        while n < out.shape[1]:
            u = uniform(state)
            tier = 0
            while tier < len(shares) - 1 and u >= shares[tier]:
                tier += 1
            low = bounds[tier]
            size = bounds[tier + 1] - low
            e = by_rank[low + int(uniform(state) * size)]
            tries = 0
            while taken[e] == t:
                # a tier used up by copies: any expert will do
                e = (
                    by_rank[int(uniform(state) * n_experts)]
                    if tries > 64 * size
                    else (by_rank[low + int(uniform(state) * size)])
                )
                tries += 1
            taken[e] = t
            out[t, n] = e
            n += 1
