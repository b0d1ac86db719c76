"""The windows kept as examples are as their manifests say."""

import json
from pathlib import Path

import pytest

from lanescope.profiler.window.folder import verify

RECEIPTS = Path(__file__).parents[2] / "captures" / "receipts"
WINDOWS = sorted(p.parent for p in RECEIPTS.glob("*/manifest.json"))


def test_a_good_and_a_broken_window_are_kept() -> None:
    outcomes = {json.loads((w / "manifest.json").read_text())["outcome"] for w in WINDOWS}
    assert {"done", "failed"} <= outcomes


@pytest.mark.parametrize("window", WINDOWS, ids=lambda p: p.name)
def test_a_kept_window_is_as_its_manifest_says(window: Path) -> None:
    assert verify(window) == []
    (restored,) = window.glob("receipts/*-incumbent_restored.json")
    assert json.loads(restored.read_text())["facts"]["status"] == "WINDOW_RESTORE_OK"
