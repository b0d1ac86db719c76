"""Attribute a kernel summary: CSV in, the same document out."""

from __future__ import annotations

from pathlib import Path

from lanescope.attribution.digest import sha256
from lanescope.attribution.ingest import stats_csv
from lanescope.attribution.rules import profile as profiles
from lanescope.attribution.rules.profile import Profile, profile_hash
from lanescope.attribution.summary.reading import Given, Reading, read
from lanescope.attribution.summary.result import document
from lanescope.attribution.summary.rows import calls_of, summary_of
from lanescope.schemas.documents.attribution import AttributionDocument


def attribute_summary(
    path: Path, profile: str | None, given: Given, api: Path | None
) -> AttributionDocument:
    """The document of a kernel summary.

    api: a `cuda_api_sum` CSV of the same capture; None to use one in the file itself, if any.
    Raises `UnusableInput`, `NoDeviceActivity`, and `UsageError` for an unknown profile.
    """
    reading, rules = _read(path, profile, given, api)
    return document(reading, path, sha256(path), profile_hash(rules))


def _read(
    path: Path, profile: str | None, given: Given, api: Path | None
) -> tuple[Reading, Profile]:
    summary = summary_of(stats_csv.read(path), path)
    if api is not None:
        summary.calls, summary.broken_calls = calls_of(api)
    functions = {r.function for r in summary.rows}
    rules = profiles.load(profile) if profile else profiles.detect(functions)
    return read(summary, rules, given), rules
