"""Small engines for the lab's tests, as functions."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lanescope.captures.lab.build import make_engine
from lanescope.captures.lab.config import configure
from lanescope.captures.lab.engine import Engine
from lanescope.captures.lab.requests import Delta, Request, Sampling

#: smaller than `tiny`: three layers
SMALL: dict[str, Any] = {"layers": 3, "hidden": 64, "inter": 32, "vocab": 1024, "context": 256}


@contextmanager
def _engine(truth: Path | None = None, **sizes: Any) -> Iterator[Engine]:
    """A running NumPy engine."""
    made = make_engine(configure("tiny", **{**SMALL, **sizes}), "cpu", truth)
    try:
        yield made
    finally:
        made.close()


def _complete(
    made: Engine, prompts: Sequence[Sequence[int]], **sampling: Any
) -> list[tuple[Request, list[Delta]]]:
    """Run prompts together and wait for all of them: each request with what it was told."""
    told: list[queue.Queue[Delta]] = [queue.Queue() for _ in prompts]
    requests = [Request(p, Sampling(**sampling), q.put) for p, q in zip(prompts, told, strict=True)]
    for request in requests:
        made.submit(request)
    done = []
    for request, box in zip(requests, told, strict=True):
        deltas = [box.get(timeout=60)]
        while deltas[-1].finish is None:
            deltas.append(box.get(timeout=60))
        done.append((request, deltas))
    return done


def _outputs(made: Engine, prompts: Sequence[Sequence[int]], **sampling: Any) -> list[list[int]]:
    """The tokens of each prompt's completion."""
    return [request.output for request, _ in _complete(made, prompts, **sampling)]


@pytest.fixture
def engine() -> Callable[..., Any]:
    """`with engine(truth=None, **sizes) as made`."""
    return _engine


@pytest.fixture
def complete() -> Callable[..., Any]:
    """`complete(made, prompts, **sampling)`."""
    return _complete


@pytest.fixture
def outputs() -> Callable[..., Any]:
    """`outputs(made, prompts, **sampling)`."""
    return _outputs
