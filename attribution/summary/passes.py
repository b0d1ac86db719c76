"""How many passes a capture holds, from the factors of the instance counts alone.

Every decode pass launches the same kernels, so a kernel that only decode uses ran D x k times, one
that only prefill uses P x k times, and one that both use (D + P) x k times; per-layer kernels have
a k that is a multiple of the layers L. The triple (D, P, L) that describes the counts in the fewest
bits is taken (a count costs the bits of the multiplier that is left, or its own bits where it has
no such factor), provided that it leads its rivals clearly: counts that several triples describe as
well are an abstention.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Fewer passes than this recur too seldom to be told from chance.
MIN_PASSES = 3
#: Fewer launches a pass than this are no number of layers, nor are more than that.
MIN_LAYERS, MAX_LAYERS = 5, 256
#: Bits by which the best reading must lead its rivals: in prefill passes and layers, in passes
#: (and twice that where there would be nearly as many prefill passes, which is mostly chance).
_LEAD, _LEAD_OF_PASSES = 1.0, 10.0
#: Bits that the layers must save.
_LEAD_OF_LAYERS = 4.0
_NO_LAYERS = (
    "{} divides most counts, but no kernel ran a number of layers times that: it may be the passes,"
    " or passes times layers"
)
#: Of the rows (and of their distinct counts) this share must have a factor in common with it.
_EXPLAINED = 0.5
_MOST_BASES, _MOST_OTHERS, _MOST_LAYERS, _MOST_REFINED = 80, 160, 6, 60
#: Passes of another kind come this nearly as often as decode passes, or as a few of them.
_BESIDE_NEAR, _BESIDE_MOST = 0.1, 4


@dataclass(frozen=True)
class Passes:
    """What the counts say. prefill and layers are None where they cannot be told."""

    decode: int
    prefill: int | None
    layers: int | None
    lead_bits: float
    #: passes of another kind that come about as often as decode ones (drafts, sampling); 0: none
    beside: int = 0
    why_no_prefill: str = ""
    why_no_layers: str = ""

    @property
    def together(self) -> int:
        """All passes."""
        return self.decode + (self.prefill or 0)


@dataclass(frozen=True)
class Unclear:
    """No reading of the counts, and why."""

    why: str


@dataclass(frozen=True)
class _Reading:
    bits: float
    decode: int
    prefill: int
    layers: int
    beside: int = 0


def infer(
    counts: list[int],
    requests: int | None = None,
    layers: int | None = None,
    steps: int | None = None,
) -> Passes | Unclear:
    """Passes and layers from the instance counts of all rows.

    requests, layers: known prefill passes and layers. steps: known decode passes, for counts that
    do not tell them; the counts then only have to agree with it.
    """
    rows = Counter(c for c in counts if c > 0)
    if len(rows) < 3:
        return Unclear(f"{len(rows)} distinct instance counts are too few to tell factors from")
    n = np.array(sorted(rows), dtype=np.int64)
    weight = np.array([1 + 0.25 * min(4, rows[int(c)] - 1) for c in n])
    readings: list[_Reading] = []
    for base in [steps] if steps else _bases(n, weight):
        readings += _readings(base, n, weight, requests, layers)
    if not readings:
        return Unclear("no count divides the others")
    readings.sort(key=lambda r: r.bits)
    readings = [_with_beside(r, n, weight) for r in readings[:_MOST_REFINED]]
    readings.sort(key=lambda r: r.bits)
    best = readings[0]
    unclear = None if steps else _too_thin(best, n, rows) or _rivalled(best, readings, rows)
    if not steps and not layers and unclear is None and _layerless(best, n, weight):
        unclear = Unclear(_NO_LAYERS.format(best.decode))
    return unclear or _settle(best, readings, n)


def _bases(n: Ints, weight: Floats) -> list[int]:
    """Candidates for the decode passes: counts, and what pairs of counts have in common."""
    found = {int(c) for c in n if c >= MIN_PASSES}
    few = n if len(n) <= 120 else n[np.linspace(0, len(n) - 1, 120).astype(int)]
    found |= {g for a, b in combinations(few.tolist(), 2) if (g := math.gcd(a, b)) >= MIN_PASSES}
    alone = {b: float((weight * (n % b == 0)).sum()) * math.log2(b) for b in found}
    return sorted(alone, key=lambda b: -alone[b])[:_MOST_BASES]


def _readings(
    base: int, n: Ints, weight: Floats, requests: int | None, layers: int | None
) -> list[_Reading]:
    """The readings with `base` decode passes, over prefill passes and layers."""
    ratios = n[n % base == 0] // base
    others = _others(base, n, ratios, requests)
    out: list[_Reading] = []
    options = [layers] if layers else _layer_options(ratios)
    for layer in options:
        bits = _describe(n, weight, base, others, layer)
        out += [_Reading(float(b), base, int(p), layer) for b, p in zip(bits, others, strict=True)]
    out.sort(key=lambda r: r.bits)
    return out[:4]


def _layer_options(ratios: Ints) -> list[int]:
    """Multipliers that others are multiples of come first; 1 stands for no layers at all."""
    held = {int(k): int((ratios % k == 0).sum()) for k in ratios if MIN_LAYERS <= k <= MAX_LAYERS}
    best = sorted(held, key=lambda k: (-held[k] * math.log2(k), k))
    return [1, *best[:_MOST_LAYERS]]


def _others(base: int, n: Ints, ratios: Ints, requests: int | None) -> Ints:
    """Candidates for the prefill passes; 0 stands for none."""
    if requests is not None:
        return np.array([requests], dtype=np.int64)
    multipliers = np.unique(np.append(ratios, 1))
    found: Counter[int] = Counter()
    for k in multipliers.tolist():
        whole = n[n % k == 0] // k
        for p in whole[(whole > base) & (whole < 2 * base)] - base:
            found[int(p)] += 1
        for p in whole[whole < base]:
            found[int(p)] += 1
    best = [p for p, _ in found.most_common(_MOST_OTHERS)]
    return np.array([0, *best], dtype=np.int64)


def _bits(k: NDArray[np.float64]) -> Floats:
    return np.log2(np.maximum(k, 1.0)) + 1.0


def _multiplier_bits(k: NDArray[np.float64], layer: int) -> Floats:
    """Bits of a multiplier: plain, or as a multiple of the layers give or take a few."""
    plain = _bits(k)
    if layer < 2:
        return plain
    times = np.maximum(np.rint(k / layer), 1.0)
    off = np.abs(k - times * layer)
    by_layer = 1.0 + _bits(times) + np.where(off > 0, 1.0 + _bits(off), 0.0)
    return np.minimum(plain, by_layer)


def _costs(n: Ints, base: int, others: Ints, layer: int) -> Floats:
    """Bits of each count (columns) for each candidate of the prefill passes (rows)."""
    bare = 1.0 + _bits(n.astype(float))
    cost = np.where(n % base == 0, 2.0 + _multiplier_bits(n / base, layer), bare)
    cost = np.minimum(bare, cost)[None, :].repeat(len(others), axis=0)
    p = np.maximum(others, 1)[:, None]
    both = p + base
    use = (others > 0)[:, None]
    with_both = np.where((n % both == 0) & use, 2.0 + _multiplier_bits(n / both, layer), bare)
    alone = np.where((n % p == 0) & use, 3.0 + _multiplier_bits(n / p, layer), bare)
    out: Floats = np.minimum(cost, np.minimum(with_both, alone))
    return out


def _with_beside(r: _Reading, n: Ints, weight: Floats) -> _Reading:
    """The reading with passes of another kind, where that saves more bits than it costs.

    Such passes add to a per-layer kernel's count: 150 passes of 24 layers and 149 drafts of one.
    """
    cost = _costs(n, r.decode, np.array([r.prefill]), r.layers)[0]
    bare = 1.0 + _bits(n.astype(float))
    open_counts = n[cost >= bare - 1.0]
    best = r
    for q in open_counts.tolist():
        times = round(q / r.decode)
        if not 1 <= times <= _BESIDE_MOST or abs(q / r.decode / times - 1) > _BESIDE_NEAR:
            continue
        over = q - times * r.decode
        if r.prefill and over > 0 and over % r.prefill == 0 and over // r.prefill <= 2:
            continue  # a kernel of both phases, run a few times a pass
        new = np.where(n % q == 0, 3.0 + _bits(n / q), cost)
        for j in (1, 2):
            rest = n - j * q
            for passes in {r.decode, r.decode + r.prefill}:
                fits = (rest > 0) & (rest % passes == 0)
                whole = _multiplier_bits(np.maximum(rest, 1) / passes, r.layers)
                new = np.where(fits, np.minimum(new, 4.0 + j + whole), new)
        bits = r.bits - float(((cost - np.minimum(cost, new)) * weight).sum()) + 3.0 + math.log2(q)
        if bits < best.bits:
            best = _Reading(bits, r.decode, r.prefill, r.layers, q)
    return best


def _describe(n: Ints, weight: Floats, base: int, others: Ints, layer: int) -> Floats:
    """Bits of all counts for each candidate of the prefill passes."""
    p = np.maximum(others, 1)[:, None]
    total: Floats = (_costs(n, base, others, layer) * weight).sum(axis=1)
    total += _bits(np.array([float(base)]))[0] + _bits(p[:, 0].astype(float)) * (others > 0)
    total += math.log2(layer) + 1.0
    return total


def _too_thin(best: _Reading, n: Ints, rows: Counter[int]) -> Unclear | None:
    """Whether too few counts share the factor."""
    base, both = best.decode, best.decode + best.prefill
    fits = (n % base == 0) | (n % both == 0)
    if best.beside:
        for passes in (base, both):
            fits |= (n % best.beside == 0) | ((n > best.beside) & ((n - best.beside) % passes == 0))
    if best.prefill > 1:
        fits |= n % best.prefill == 0
    share = sum(rows[int(c)] for c in n[fits]) / sum(rows.values())
    if fits.mean() < _EXPLAINED or share < _EXPLAINED:
        return Unclear(
            f"the best common factor, {base}, divides {fits.sum()} of {len(n)} distinct counts"
        )
    return None


def _layerless(best: _Reading, n: Ints, weight: Floats) -> bool:
    """Whether the counts are described about as well without the layers of the best reading."""
    bits = _describe(n, weight, best.decode, np.array([best.prefill]), 1)[0]
    plain = _with_beside(_Reading(float(bits), best.decode, best.prefill, 1), n, weight)
    return plain.bits - best.bits < _LEAD_OF_LAYERS


def _once(reading: _Reading, rows: Counter[int]) -> int:
    """How many kernels run exactly once a pass."""
    return rows[reading.decode] + (rows[reading.decode + reading.prefill] if reading.prefill else 0)


def _rivalled(best: _Reading, readings: list[_Reading], rows: Counter[int]) -> Unclear | None:
    """Whether another number of decode passes describes the counts about as well.

    Where no kernel runs exactly once a pass, as many passes with fewer kernels each would do too.
    """
    if best.layers < MIN_LAYERS:
        return Unclear(_NO_LAYERS.format(best.decode))
    if not _once(best, rows):
        return Unclear(
            f"{best.decode} divides most counts, but no kernel ran exactly that often: a pass may "
            "be a part or a multiple of it"
        )
    rivals = [r for r in readings if r.decode != best.decode]
    if not rivals:
        return None
    needed = _LEAD_OF_PASSES * (2 if 2 * best.prefill > best.decode else 1)
    if rivals[0].bits - best.bits < needed:
        return Unclear(
            f"the counts fit {best.decode} passes and {rivals[0].decode} about equally well"
        )
    return None


def _settle(best: _Reading, readings: list[_Reading], n: Ints) -> Passes:
    same = [r for r in readings if r.decode == best.decode]
    rivals = [r.bits for r in readings if r.decode != best.decode]
    lead = rivals[0] - best.bits if rivals else math.inf
    prefill: int | None = best.prefill or None
    why_no_prefill = "" if prefill else "no count has a second factor beside the passes"
    other = [r for r in same if r.prefill != best.prefill]
    if prefill and other and other[0].bits - best.bits < _LEAD:
        why_no_prefill = f"{prefill} and {other[0].prefill} prefill passes fit about equally well"
        prefill = None
    if prefill and best.layers > 1 and best.layers % best.decode == 0:
        why_no_prefill = (
            f"{best.layers} layers are a multiple of the {best.decode} passes: a prefill kernel "
            "runs as often as a decode kernel may"
        )
        prefill = None
    layers: int | None = best.layers if best.layers > 1 else None
    why_no_layers = "" if layers else "no multiplier is shared by enough kernels"
    rival = [r for r in same if r.layers != best.layers and r.prefill == best.prefill]
    if layers and rival and rival[0].bits - best.bits < _LEAD:
        a, b = sorted((layers, rival[0].layers))
        why_no_layers = f"{a} and {b} layers fit about equally well"
        layers = None
    return Passes(best.decode, prefill, layers, lead, best.beside, why_no_prefill, why_no_layers)
