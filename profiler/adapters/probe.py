"""The probe: a streaming client for servers that speak the OpenAI protocol.

One row a request and one row a chunk. Times are integer nanoseconds of the monotonic clock. Tokens
are the server's own usage figures; where it reports none, the row says that chunks were counted.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from lanescope.schemas.documents.lane import Ready
from lanescope.schemas.documents.window import Probe
from lanescope.schemas.errors import UnusableInput

#: what "now" means in a rate of a probe under way
_RECENT_NS = 2_000_000_000


@dataclass(frozen=True)
class Prompt:
    """A prompt and the id under which its runs are paired."""

    id: str
    prompt: str


def read_prompts(path: Path) -> list[Prompt]:
    """Prompts from JSON lines `{"id": …, "prompt": …}`. Raises `UnusableInput` with the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UnusableInput(f"{path}: {exc}", "name a file of JSON lines") from exc
    found: list[Prompt] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            prompt = Prompt(str(data["id"]), str(data["prompt"]))
        except (ValueError, KeyError, TypeError) as exc:
            raise UnusableInput(
                f"{path}: line {number}: not a prompt", 'write {"id": "p1", "prompt": "..."}'
            ) from exc
        if prompt.id in {p.id for p in found}:
            raise UnusableInput(f"{path}: line {number}: id {prompt.id!r} twice", "make ids unique")
        found.append(prompt)
    if not found:
        raise UnusableInput(f"{path}: holds no prompts", 'write {"id": "p1", "prompt": "..."}')
    return found


@dataclass
class Request:
    """One request. None: the server did not say, or it did not come to that."""

    phase: str
    concurrency: int
    repetition: int
    prompt_id: str
    began_unix_ns: int = 0
    began_ns: int = 0
    wall_ns: int | None = None
    ttft_ns: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_by: str = "usage"
    decode_tokens_per_s: float | None = None
    chunks: int = 0
    gap_p50_ns: int | None = None
    gap_p95_ns: int | None = None
    gap_per_token_ns: float | None = None
    error: str = ""
    chunk_rows: list[tuple[int, int | None]] = field(default_factory=list, repr=False)

    def row(self) -> dict[str, Any]:
        """The request as a JSON line."""
        return {k: v for k, v in asdict(self).items() if k != "chunk_rows"}


class Client:
    """Sends prompts and times their streams."""

    def __init__(self, ready: Ready, key: str, probe: Probe) -> None:
        self.ready, self.probe = ready, probe
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        timeout = httpx.Timeout(probe.timeout_s, connect=10.0)
        self._http = httpx.Client(headers=headers, timeout=timeout, limits=limits, trust_env=False)
        self._lock = threading.Lock()
        self._in_flight = 0
        self._begun: list[Request] = []
        self.cancelled = threading.Event()

    def in_flight(self) -> int:
        """Requests of this client that are on the way."""
        return self._in_flight

    def progress(self) -> dict[str, Any]:
        """Requests done and on the way, tokens so far, tokens/s over the last two seconds."""
        now = time.monotonic_ns()
        with self._lock:
            begun, in_flight = list(self._begun), self._in_flight
        recent = sum(_since(list(r.chunk_rows), now - r.began_ns - _RECENT_NS) for r in begun)
        return {
            "done": len(begun) - in_flight,
            "in_flight": in_flight,
            "tokens": sum(r.completion_tokens or len(r.chunk_rows) for r in begun),
            "tokens_per_s": round(recent / (_RECENT_NS / 1e9), 1),
        }

    def close(self) -> None:
        """End what is on the way."""
        self.cancelled.set()
        self._http.close()

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.ready.model,
            "max_tokens": self.probe.max_tokens,
            "temperature": self.probe.temperature,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if self.ready.completions.endswith("/chat/completions"):
            return body | {"messages": [{"role": "user", "content": prompt.prompt}]}
        return body | {"prompt": prompt.prompt}

    def ask(self, prompt: Prompt, phase: str, concurrency: int, repetition: int) -> Request:
        """One request, streamed to its end. A failure is a row with its error."""
        request = Request(phase, concurrency, repetition, prompt.id)
        with self._lock:
            self._in_flight += 1
            self._begun.append(request)
        request.began_unix_ns, request.began_ns = time.time_ns(), time.monotonic_ns()
        try:
            self._stream(prompt, request)
        except httpx.HTTPError as exc:
            request.error = f"{type(exc).__name__}: {exc}"
        except RuntimeError as exc:  # the client was closed under it
            request.error = f"cancelled: {exc}"
        finally:
            with self._lock:
                self._in_flight -= 1
        _finish(request)
        return request

    def _stream(self, prompt: Prompt, request: Request) -> None:
        url = self.ready.url + self.ready.completions
        with self._http.stream("POST", url, json=self._body(prompt)) as response:
            if response.status_code != 200:
                response.read()
                request.error = f"HTTP {response.status_code}: {response.text[:200]}"
                return
            for data in _events(response):
                if self.cancelled.is_set():
                    request.error = "cancelled"
                    return
                self._take(data, request)
        request.wall_ns = time.monotonic_ns() - request.began_ns

    def _take(self, data: dict[str, Any], request: Request) -> None:
        now = time.monotonic_ns() - request.began_ns
        if "error" in data:
            request.error = str(data["error"])[:200]
            return
        usage = data.get("usage") or {}
        tokens = usage.get("completion_tokens")
        if tokens is not None:
            request.completion_tokens = int(tokens)
            request.prompt_tokens = usage.get("prompt_tokens", request.prompt_tokens)
        if _has_text(data):
            request.chunk_rows.append((now, None if tokens is None else int(tokens)))


def _since(rows: list[tuple[int, int | None]], from_ns: int) -> int:
    """Tokens that came after a moment of a request; chunks, where the server counts none."""
    after = [tokens for t, tokens in rows if t > from_ns]
    if not after or after[-1] is None:
        return len(after)
    before = next((n for t, n in reversed(rows) if t <= from_ns), 0) or 0
    return after[-1] - before


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data:"):
            text = line[5:].strip()
            if text == "[DONE]":
                return
            try:
                event = json.loads(text)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _has_text(data: dict[str, Any]) -> bool:
    """Whether a chunk carries tokens: the role chunk and the usage chunk do not."""
    usage = data.get("usage")
    for choice in data.get("choices") or []:
        delta = choice.get("delta") or {}
        words = choice.get("text") or delta.get("content") or delta.get("reasoning_content")
        if words or delta.get("tool_calls") or (usage and usage.get("completion_tokens")):
            return True
    return False


def _finish(request: Request) -> None:
    """Figures of a request from its chunks. TTFT is the first chunk with a token in it."""
    rows = request.chunk_rows
    request.chunks = len(rows)
    if not rows:
        request.error = request.error or ("" if request.wall_ns is None else "no token came")
        return
    request.ttft_ns = rows[0][0]
    gaps = sorted(b[0] - a[0] for a, b in pairwise(rows))
    if gaps:
        request.gap_p50_ns = gaps[len(gaps) // 2]
        request.gap_p95_ns = gaps[min(len(gaps) - 1, int(len(gaps) * 0.95))]
    if request.completion_tokens is None:
        request.tokens_by, request.completion_tokens = "chunks", len(rows)
    first, last = rows[0], rows[-1]
    counted = first[1] is not None and last[1] is not None
    gained = (last[1] or 0) - (first[1] or 0) if counted else len(rows) - 1
    if last[0] > first[0] and gained > 0:
        # (C_last - C_first) / (t_last - t_first); without running usage the chunks stand for tokens
        request.decode_tokens_per_s = gained / ((last[0] - first[0]) / 1e9)
        request.gap_per_token_ns = (last[0] - first[0]) / gained
        if not counted:
            request.tokens_by = "chunks"


def first_model(url: str, key: str) -> str:
    """The first model that a server lists. Raises `UnusableInput` where it lists none."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(url + "/v1/models", headers=headers, timeout=10, trust_env=False)
        answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError) as exc:
        raise UnusableInput(
            f"{url}/v1/models: {type(exc).__name__}: no model listed", "check address and key"
        ) from exc


def run(client: Client, prompts: list[Prompt], phase: str) -> list[Request]:
    """Every prompt, repetition and concurrency of a probe; rows in the order of asking."""
    rows: list[Request] = []
    for concurrency in client.probe.concurrency:
        jobs = [(p, n) for n in range(client.probe.repetitions) for p in prompts]
        with ThreadPoolExecutor(concurrency) as pool:
            futures = [pool.submit(client.ask, p, phase, concurrency, n) for p, n in jobs]
            rows += [future.result() for future in futures]
    return rows


def warm_up(client: Client, prompts: list[Prompt]) -> list[Request]:
    """The first prompts, one after another; not part of any figure."""
    wanted = client.probe.warmup
    chosen = (prompts * (wanted // len(prompts) + 1))[:wanted]
    return [client.ask(p, "warmup", 1, n) for n, p in enumerate(chosen)]


def sent(rows: list[Request]) -> dict[str, int | None]:
    """What this client asked for and got, as the server should have counted it."""
    prompt = [r.prompt_tokens for r in rows]
    tokens = [r.completion_tokens if r.tokens_by == "usage" else None for r in rows]
    return {
        "requests": sum(1 for r in rows if not r.error),
        "prompt_tokens": None if None in prompt else sum(p or 0 for p in prompt),
        "generation_tokens": None if None in tokens else sum(t or 0 for t in tokens),
    }


def not_reported(rows: list[Request]) -> list[str]:
    """What the server left out, in words."""
    said = []
    if any(r.prompt_tokens is None for r in rows):
        said.append("usage (include_usage)")
    if any(r.tokens_by == "chunks" for r in rows):
        said.append("running usage (continuous_usage_stats): chunks were counted as tokens")
    return said
