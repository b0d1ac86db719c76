"""Which phase each row of a summary belongs to, given the passes.

decode: a multiple of the decode passes; prefill: of the prefill passes, or tiles that share them
out among prompts; both: a multiple of all passes, or so many of each; unclear: the count fits
decode and prefill alike; other: too few to be once a pass (start-up). Every row has exactly one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement

from lanescope.attribution.summary.passes import Passes
from lanescope.attribution.summary.rows import Row

DECODE, PREFILL, BOTH, UNCLEAR, OTHER = "decode", "prefill", "both", "unclear", "other"
#: An ambiguous kernel this many times longer than any per-layer decode kernel is a prefill kernel.
_MUCH_LONGER = 4.0
_FEW = 3


@dataclass(frozen=True)
class Part:
    """A row with its phase. times: runs a pass, where the count says; how: the count in factors."""

    row: Row
    phase: str
    how: str
    times: int | None = None
    #: of a row that runs in both phases: how many of its instances are prefill's, where told
    prefill_instances: int | None = None


def parts(rows: list[Row], passes: Passes) -> list[Part]:
    """Every row with its phase, in order."""
    counts = {r.instances for r in rows}
    known = _multipliers(counts, passes)
    shared = _shared_out(rows, counts, known, passes)
    limit = _longest_decode(rows, passes)
    return [_part(r, known, shared, limit, passes) for r in rows]


def _multipliers(counts: Iterable[int], passes: Passes) -> set[int]:
    """How often kernels run in a pass, as far as decode-only and common counts tell."""
    found = {passes.layers} if passes.layers else set()
    for n in counts:
        for p in (passes.decode, passes.together):
            if n % p == 0:
                found.add(n // p)
    return found


def _fits_known(k: int, known: set[int]) -> bool:
    """Whether a multiplier is one that decode has too, or two of them together, or very small."""
    return k <= _FEW or k in known or any(k - a in known for a in known)


def _part(row: Row, known: set[int], shared: dict[int, str], limit: float, passes: Passes) -> Part:
    n, d, p, both = row.instances, passes.decode, passes.prefill, passes.together
    if p and n % both == 0 and (n % d or n // both <= n // d):
        return Part(row, BOTH, f"{both} x {n // both}", n // both, p * (n // both))
    if n % d == 0:
        return _decode_or_prefill(row, known, limit, passes)
    if p and n % p == 0 and (n < d or _fits_known(n // p, known)):
        return Part(row, PREFILL, f"{p} x {n // p}", n // p)
    if n in shared:
        return Part(row, PREFILL, shared[n])
    if passes.beside and n % passes.beside == 0:
        k = n // passes.beside
        return Part(row, BOTH, f"{passes.beside} x {k}", k, p * k if p else None)
    if n < d:
        return Part(row, OTHER, str(n))
    return _of_both(row, known, passes)


def _decode_or_prefill(row: Row, known: set[int], limit: float, passes: Passes) -> Part:
    """A multiple of the decode passes; of the prefill passes too, by a known multiplier?"""
    n, d, p = row.instances, passes.decode, passes.prefill
    as_decode = Part(row, DECODE, f"{d} x {n // d}", n // d)
    if not p or n % p or n // p not in known or n // p == n // d:
        return as_decode
    if n // d > _FEW and _once_or_layers(n // d, passes):
        return as_decode
    as_prefill = Part(row, PREFILL, f"{p} x {n // p}, told by duration", n // p)
    if limit and row.mean_ns > _MUCH_LONGER * limit:
        return as_prefill
    if not _once_or_layers(n // p, passes):
        return as_decode
    return Part(row, UNCLEAR, f"{d} x {n // d} or {p} x {n // p}")


def _once_or_layers(k: int, passes: Passes) -> bool:
    return k == 1 or bool(passes.layers and k % passes.layers == 0)


def _longest_decode(rows: list[Row], passes: Passes) -> float:
    """The longest mean [ns] of kernels that are decode's for certain and run in every layer."""
    floor = passes.decode * max(_FEW + 1, passes.layers or 0)
    means = [r.mean_ns for r in rows if r.instances >= floor and r.instances % passes.decode == 0]
    return max(means, default=0.0)


def _shared_out(
    rows: list[Row], counts: set[int], known: set[int], passes: Passes
) -> dict[int, str]:
    """Counts of prefill kernels that differ by prompt: 237 + 79 = (3 + 1) x 79 with 4 prompts."""
    p = passes.prefill
    if not p or p < 2:
        return {}
    free = [n for n in counts if n < p * max(known, default=1) and n % passes.decode and n % p]
    families: dict[int, set[str]] = {}
    for r in rows:
        families.setdefault(r.instances, set()).add(re.sub(r"\d+", "", r.function))
    out: dict[int, str] = {}
    for k in sorted({1, 2, _FEW} | known, reverse=True):
        shares = {n // k: n for n in free if n % k == 0 and n // k < p and n not in out}
        for size in (2, 3):
            for group in combinations_with_replacement(sorted(shares), size):
                members = {shares[s] for s in group}
                alike = len(members) > 1 and bool(set.intersection(*(families[m] for m in members)))
                if sum(group) == p and len(members) > 1 and (k > _FEW or alike):
                    words = f"({' + '.join(str(s) for s in sorted(group, reverse=True))}) x {k}"
                    out.update(dict.fromkeys(members, words))
    return out


def _of_both(row: Row, known: set[int], passes: Passes) -> Part:
    """More than once a decode pass, but no multiple: so many of each, as simply as may be."""
    n, d, p, q = row.instances, passes.decode, passes.prefill, passes.beside
    for j in (1, 2):
        for base in (d, passes.together):
            if q and n > j * q and (n - j * q) % base == 0:
                k = (n - j * q) // base
                # of the passes beside, a prefill pass has at most one
                of_prefill = p * (j + (k if base != d else 0)) if p else None
                return Part(row, BOTH, f"{base} x {k} + {q} x {j}", prefill_instances=of_prefill)
    if p and 0 < n % passes.together <= 2:
        k = n // passes.together
        return Part(row, BOTH, f"{passes.together} x {k} + {n % passes.together}", k, p * k)
    best: tuple[float, int, int] | None = None
    for a in range(n // d, max(0, n // d - (p or 0)) - 1, -1):
        rest = n - a * d
        if p and a > 0 and rest > 0 and rest % p == 0:
            b = rest // p
            bits = (0 if a in known else math.log2(a + 1)) + (0 if b in known else math.log2(b + 1))
            if best is None or bits < best[0]:
                best = (bits, a, b)
    if best is not None and p:
        _, a, b = best
        return Part(row, BOTH, f"{d} x {a} + {p} x {b}", a, p * b)
    return Part(row, BOTH, f"{d} x {n // d} + {n % d}", n // d)
