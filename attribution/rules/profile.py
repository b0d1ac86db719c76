"""Profiles: the ordered rules that name ranges and buckets, read from TOML.

A profile states how one engine writes its NVTX ranges and names its kernels. The bundled ones lie
in `captures/profiles/`; `--profile FILE` names a user's own.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lanescope.attribution.rules.names import function_name
from lanescope.schemas.errors import UsageError

UNMATCHED = "other"
#: phase word in a range name -> (phase, part). A profile may add to these.
PHASE_WORDS: dict[str, tuple[str, str]] = {
    "spec_verify": ("decode", "verify"),
    "verify": ("decode", "verify"),
    "decode": ("decode", "verify"),
    "draft": ("decode", "draft"),
    "sampling": ("decode", "sampling"),
    "sample": ("decode", "sampling"),
    "prefill": ("prefill", ""),
    "mixed": ("mixed", ""),
}


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ValueError(f"not a regular expression: {exc}") from exc
    return pattern


Pattern = Annotated[str, AfterValidator(_regex)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RangeRule(_Strict):
    """One rule on NVTX range names. Named groups become columns: phase, step, k, request, layer."""

    pattern: Pattern
    kind: Literal["phase", "request", "layer"] = "phase"
    phase: str = ""  # a fixed phase word, where the name has no `phase` group


class BucketRule(_Strict):
    """One rule on kernel function names; the first that matches names the bucket."""

    bucket: str
    pattern: Pattern
    #: only for rows of a kernel summary: how many instances the row has
    instances: int | None = None


class RowCopies(_Strict):
    """What the engine's row-move kernel moves, where it is known."""

    pattern: Pattern = r"row_copy$"
    tensors: list[str] = Field(default_factory=list)
    row_bytes: dict[str, int] = Field(default_factory=dict)
    layers: int | None = None
    routed_rows: int | None = None
    slots: int | None = None


class Summary(_Strict):
    """Rules for a kernel summary (no timeline): which rows are prefill, and the divisors."""

    steps: int | None = Field(default=None, gt=0)
    layers: int | None = Field(default=None, gt=0)
    requests: int | None = Field(default=None, gt=0)
    prefill: list[BucketRule] = Field(default_factory=list)
    #: patterns look at the whole name in lower case, not at the function name
    whole_names: bool = False
    #: rows that are added up across buckets
    groups: list[BucketRule] = Field(default_factory=list)


class Profile(_Strict):
    """The rules of one engine."""

    name: str
    description: str = ""
    #: kernel function names that give the engine away
    detect: list[Pattern] = Field(default_factory=list)
    phase_words: dict[str, tuple[str, str]] = Field(default_factory=dict)
    ranges: list[RangeRule] = Field(default_factory=list)
    buckets: list[BucketRule]
    row_copies: RowCopies = Field(default_factory=RowCopies)
    summary: Summary = Field(default_factory=Summary)

    def phase_of(self, word: str) -> tuple[str, str]:
        """(phase, part) of a phase word; an unknown word is outside, and keeps its name."""
        words = {**PHASE_WORDS, **self.phase_words}
        return words.get(word, ("outside", word))

    def bucket_of(self, name: str) -> str:
        """The bucket of a function name."""
        for rule in self.buckets:
            if rule.instances is None and re.search(rule.pattern, name):
                return rule.bucket
        return UNMATCHED

    def bucket_of_forms(self, short: str | None, demangled: str | None, mangled: str | None) -> str:
        """The bucket of a kernel, whichever form of its name the export has."""
        return self.bucket_of(function_name(short, demangled, mangled))


def bundled() -> dict[str, Any]:
    """The profiles that come with the product, by name."""
    folder = files("lanescope.captures.profiles")
    return {p.name.removesuffix(".toml"): p for p in folder.iterdir() if p.name.endswith(".toml")}


@lru_cache
def load(name_or_path: str) -> Profile:
    """A bundled profile by name, or a profile file by path.

    Raises `UsageError` naming file, key and remedy.
    """
    known = bundled()
    if name_or_path in known:
        text, shown = known[name_or_path].read_text(encoding="utf-8"), f"{name_or_path}.toml"
    else:
        path = Path(name_or_path)
        if not path.is_file():
            names = ", ".join(sorted(known))
            raise UsageError(f"no profile {name_or_path!r}", f"give a TOML file, or one of {names}")
        text, shown = path.read_text(encoding="utf-8", errors="replace"), str(path)
    try:
        return Profile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{shown}: not TOML: {exc}", "correct the file") from exc
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(p) for p in first["loc"])
        raise UsageError(f"{shown}: {key}: {first['msg']}", "correct the key") from exc


def profile_hash(profile: Profile) -> str:
    """A hash of the rules used, for provenance and comparability."""
    return hashlib.sha256(profile.model_dump_json().encode()).hexdigest()


#: The order in which profiles are tried; the last one takes everything.
DETECTION_ORDER = ("slot-cache", "vllm", "sglang", "tensorrt-llm", "generic")


def detect(function_names: set[str]) -> Profile:
    """The first profile one of whose giveaways is among the kernel names."""
    for name in DETECTION_ORDER[:-1]:
        profile = load(name)
        if any(re.search(p, f) for p in profile.detect for f in function_names):
            return profile
    return load(DETECTION_ORDER[-1])
