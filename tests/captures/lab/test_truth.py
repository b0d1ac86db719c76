"""What the engine writes down is what happened."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lanescope.captures.lab.config import configure
from lanescope.captures.lab.slots import SlotCache
from lanescope.captures.lab.truthlog import TruthLog
from lanescope.schemas.errors import UnusableInput

GEOMETRIES: list[dict[str, Any]] = [
    {"k": 0, "slots": 4},
    {"k": 1, "slots": 8},
    {"k": 2, "slots": 6, "topk": 3},
    {"k": 2, "slots": 3, "topk": 4, "experts": 12},
    {"k": 1, "slot_map": (2, 16, 7)},
]
PROMPTS = [
    list(b"a prompt that is longer than sixteen"),
    list(b"short"),
    list(b"and a third, long one"),
]


@pytest.mark.parametrize("sizes", GEOMETRIES)
def test_the_files_replay_to_the_engines_own_misses(
    engine: Callable[..., Any], outputs: Callable[..., Any], tmp_path: Path, sizes: dict[str, Any]
) -> None:
    with engine(truth=tmp_path / "truth", **sizes) as made:
        outputs(made, PROMPTS, max_tokens=30)
        config = made.config
        counted = list(made.counters.misses)
    routing = pq.read_table(tmp_path / "truth" / "routing.parquet").to_pandas()
    misses = pq.read_table(tmp_path / "truth" / "misses.parquet").to_pandas()
    columns = [f"e{i}" for i in range(config.topk)]
    assert (routing.groupby("layer")["token"].nunique() == routing["token"].nunique()).all()
    for layer, rows in routing.groupby("layer"):
        cache, found = SlotCache(config.slots_of[layer]), {}
        for step, tokens in rows.sort_values("token").groupby("step"):
            if tokens["prefill"].iloc[0] and len(tokens) > config.bypass_over:
                continue
            found[step] = cache.request(step, tokens[columns].to_numpy().ravel().tolist()).misses
        own = misses[misses["layer"] == layer]
        assert dict(zip(own["step"], own["misses"], strict=True)) == found
        assert own["misses"].sum() == counted[layer]
    assert set(misses["step"]) == set(range(misses["step"].max() + 1)) - {
        s for s, n in routing[routing.layer == 0].groupby("step").size().items() if n > 16
    }


def test_lines_agree_with_the_parquet_files(
    engine: Callable[..., Any], complete: Callable[..., Any], tmp_path: Path
) -> None:
    with engine(truth=tmp_path / "truth", k=2) as made:
        done = complete(made, PROMPTS, max_tokens=30)
    lines = [json.loads(x) for x in (tmp_path / "truth" / "steps.jsonl").open()]
    misses = pq.read_table(tmp_path / "truth" / "misses.parquet").to_pandas()
    for line in lines:
        own = misses[misses["step"] == line["step"]].sort_values("layer")["misses"].tolist()
        assert own == (line["misses"] or [])
        assert line["start_ns"] <= line["end_ns"]
    assert [line["step"] for line in lines] == list(range(len(lines)))
    for request, _ in done:
        mine = [x for x in lines if request.name in x["requests"] and x["kind"] == "verify"]
        given = sum(1 + x["accepted"][x["requests"].index(request.name)] for x in mine)
        # the first token is the prefill's, and the last step may offer more than was wanted
        assert 29 <= given <= 31


def test_a_folder_is_never_written_over(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="exists"):
        TruthLog(tmp_path, configure(), {})


def test_metadata_says_what_the_replay_needs(
    engine: Callable[..., Any], outputs: Callable[..., Any], tmp_path: Path
) -> None:
    with engine(truth=tmp_path / "truth") as made:
        outputs(made, PROMPTS[:1], max_tokens=3)
    facts = json.loads(
        pq.read_schema(tmp_path / "truth" / "routing.parquet").metadata[b"lanescope"]
    )
    assert facts == {
        "schema": "lanescope.routing/1",
        "experts": 16,
        "top_k": 2,
        "bypass_over": 16,
    }
