"""The protocol, over a real socket, with the public OpenAI client and with plain HTTP."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

SERVE = [sys.executable, "-m", "lanescope", "lab", "serve", "--port", "0", "--device", "cpu"]
TOKEN = "not-a-secret"


@dataclass
class Lane:
    """A serving lab lane."""

    process: subprocess.Popen[str]
    url: str
    records: Path
    log: Path

    @property
    def truth(self) -> Path:
        """The record of this start."""
        (record,) = self.records.iterdir()
        return record

    def get(self, path: str, body: Any = None, token: str | None = TOKEN) -> tuple[int, str]:
        """Status and text of a request; with a body it is a POST."""
        data = (
            None
            if body is None
            else (body if isinstance(body, bytes) else json.dumps(body).encode())
        )
        request = urllib.request.Request(self.url + path, data)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            return exc.code, exc.read().decode()

    def series(self) -> dict[tuple[str, str], float]:
        """`/metrics`: (name, the label that tells rows apart) -> value."""
        found = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for s in family.samples:
                rest = [v for k, v in s.labels.items() if k not in ("model_name", "engine")]
                found[s.name, ",".join(rest)] = s.value
        return found


def start(folder: Path, *extra: str) -> Lane:
    """Serve on a free port; returns once it is ready."""
    log = folder / "log"
    process = subprocess.Popen(
        [*SERVE, "--truth", str(folder / "truth"), "--stats-every", "0.2", *extra],
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
        env={**os.environ, "LANESCOPE_LAB_TOKEN": TOKEN},
    )
    assert process.stdout is not None
    ready = process.stdout.readline()
    assert "ready at http" in ready, log.read_text()
    return Lane(process, ready.split()[-1].removesuffix("/v1"), folder / "truth", log)


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    made = start(tmp_path_factory.mktemp("lane"), "--layers", "3", "--context", "512")
    yield made
    made.process.terminate()
    assert made.process.wait(30) == 0


@pytest.fixture(scope="module")
def client(lane: Lane) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{lane.url}/v1", api_key=TOKEN, max_retries=0)


def test_models_name_the_lane(client: openai.OpenAI) -> None:
    assert [m.id for m in client.models.list()] == ["lab-tiny"]


def test_a_stream_spells_the_whole_answer(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {
        "model": "lab-tiny",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0,
        "max_tokens": 30,
    }
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert streamed == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert chunks[-1].usage == whole.usage
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 30


def test_continuous_usage_counts_every_token_once(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="lab-tiny",
            messages=[{"role": "user", "content": "hello"}],
            max_tokens=25,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True, "continuous_usage_stats": True},  # type: ignore[typeddict-unknown-key]
        )
    )
    counts = [c.usage.completion_tokens for c in chunks if c.usage]
    assert len(counts) == len(chunks)
    assert counts[0] == 0
    assert counts[-1] == 25
    assert counts == sorted(counts)
    words = 0
    for chunk in chunks:
        if chunk.choices:
            words += len((chunk.choices[0].delta.content or "").split())
            assert chunk.usage is not None
            assert words == chunk.usage.completion_tokens


def test_echo_with_logprobs_lines_up_with_the_text(client: openai.OpenAI) -> None:
    done = client.completions.create(
        model="lab-tiny", prompt="so: bakuto", max_tokens=4, temperature=0, logprobs=3, echo=True
    )
    choice = done.choices[0]
    assert choice.text.startswith("so: bakuto")
    probs = choice.logprobs
    assert probs is not None
    assert "".join(probs.tokens or []) == choice.text
    assert done.usage is not None
    assert len(probs.tokens or []) == done.usage.total_tokens
    for token, at in zip(probs.tokens or [], probs.text_offset or [], strict=True):
        assert choice.text[at : at + len(token)] == token
    assert (probs.token_logprobs or [])[0] is None
    completion = (probs.top_logprobs or [])[-4:]
    for token, value, best in zip(
        (probs.tokens or [])[-4:], (probs.token_logprobs or [])[-4:], completion, strict=True
    ):
        assert value == best[token] == max(best.values())  # greedy: the best of all


def test_prompt_logprobs_need_no_completion(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "lab-tiny", "prompt": "word for word", "logprobs": 1}
    only = client.completions.create(**asked, max_tokens=0, echo=True)
    more = client.completions.create(**asked, max_tokens=3, echo=True, temperature=0)
    assert only.usage is not None
    assert only.usage.completion_tokens == 0
    assert only.choices[0].logprobs is not None
    assert more.choices[0].logprobs is not None
    n = only.usage.prompt_tokens
    assert only.choices[0].logprobs.token_logprobs == more.choices[0].logprobs.token_logprobs[:n]


def test_chat_logprobs(client: openai.OpenAI) -> None:
    done = client.chat.completions.create(
        model="lab-tiny",
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=5,
        temperature=0,
        logprobs=True,
        top_logprobs=2,
    )
    assert done.choices[0].logprobs is not None
    content = done.choices[0].logprobs.content or []
    assert "".join(c.token for c in content) == done.choices[0].message.content
    assert all(c.top_logprobs[0].token == c.token for c in content)


def test_stop_strings_end_the_text_before_them(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "lab-tiny", "prompt": "a b c", "temperature": 0}
    words = client.completions.create(**asked, max_tokens=20).choices[0].text.split()
    stop = f"{words[5]} {words[6][:3]}"  # spans two tokens
    done = client.completions.create(**asked, max_tokens=20, stop=[stop, "never"])
    assert done.choices[0].finish_reason == "stop"
    assert done.choices[0].text.split() == words[:5]
    streamed = client.completions.create(**asked, max_tokens=20, stop=stop, stream=True)
    assert "".join(c.choices[0].text for c in streamed) == done.choices[0].text


def test_several_prompts_in_one_call(client: openai.OpenAI) -> None:
    prompts = ["one prompt", "another, longer than the bypass threshold", "third"]
    together = client.completions.create(
        model="lab-tiny", prompt=prompts, max_tokens=12, temperature=0
    )
    alone = [
        client.completions.create(model="lab-tiny", prompt=p, max_tokens=12, temperature=0)
        for p in prompts
    ]
    assert [c.text for c in together.choices] == [a.choices[0].text for a in alone]
    assert [c.index for c in together.choices] == [0, 1, 2]


def test_sampling_repeats_with_its_seed(client: openai.OpenAI) -> None:
    def text(seed: int) -> str:
        asked = {"model": "lab-tiny", "prompt": "dice", "temperature": 1.5, "top_p": 0.95}
        return client.completions.create(**asked, max_tokens=20, seed=seed).choices[0].text  # type: ignore[call-overload, no-any-return]

    assert text(1) == text(1) != text(2)


def test_eight_clients_get_the_text_that_one_gets(client: openai.OpenAI) -> None:
    def ask(n: int) -> str:
        done = client.completions.create(
            model="lab-tiny", prompt=f"client {n}", max_tokens=30, temperature=0
        )
        return done.choices[0].text

    alone = [ask(n) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == alone


def test_metrics_move_by_exactly_what_was_sent(lane: Lane, client: openai.OpenAI) -> None:
    before = lane.series()
    assert before["vllm:request_success_total", "length"] >= 0
    done = client.completions.create(
        model="lab-tiny", prompt="count me", max_tokens=40, temperature=0
    )
    after = lane.series()
    moved = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    assert done.usage is not None
    assert moved["vllm:prompt_tokens_total", ""] == done.usage.prompt_tokens
    assert moved["vllm:generation_tokens_total", ""] == 40
    assert moved["vllm:request_success_total", "length"] == 1
    drafts = moved["vllm:spec_decode_num_drafts_total", ""]
    accepted = moved["vllm:spec_decode_num_accepted_tokens_total", ""]
    assert drafts + accepted in (39, 40)  # the first token is the prefill's
    assert after["vllm:num_requests_running", ""] == after["vllm:num_requests_waiting", ""] == 0


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, None),
        ([], 400, None),
        ({"model": "other", "prompt": "x"}, 404, "model"),
        ({"prompt": ""}, 400, "prompt"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": [1, 99999]}, 400, "prompt"),
        ({"prompt": [1, True]}, 400, "prompt"),
        ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": "x", "max_tokens": 10**6}, 400, "max_tokens"),
        ({"prompt": "x" * 600}, 400, "prompt"),
        ({"prompt": "x", "n": 2}, 400, "n"),
        ({"prompt": "x", "temperature": -1}, 400, "temperature"),
        ({"prompt": "x", "temperature": "hot"}, 400, "temperature"),
        ({"prompt": "x", "logprobs": 99}, 400, "logprobs"),
        ({"prompt": "x", "stop": [3]}, 400, "stop"),
        ({"prompt": "x", "stream": "yes"}, 400, "stream"),
        ({"prompt": "x", "stream_options": 1}, 400, "stream_options"),
    ],
)
def test_a_bad_body_is_refused_by_name(lane: Lane, body: Any, status: int, param: str) -> None:
    code, text = lane.get("/v1/completions", body)
    error = json.loads(text)["error"]
    assert (code, error["code"], error["param"]) == (status, status, param)


def test_a_bad_chat_is_refused(lane: Lane) -> None:
    for messages in ([], "x", [{"content": "x"}], [{"role": "user", "content": [{"image": 1}]}]):
        assert lane.get("/v1/chat/completions", {"messages": messages})[0] == 400
    parts = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
    assert lane.get("/v1/chat/completions", {"messages": parts, "max_tokens": 1})[0] == 200


def test_the_token_is_asked_for(lane: Lane) -> None:
    for path, body in (("/v1/models", None), ("/v1/completions", {}), ("/start_profile", b"")):
        assert lane.get(path, body, token=None)[0] == 401
        assert lane.get(path, body, token="wrong")[0] == 401
    assert lane.get("/health", token=None)[0] == 200
    assert lane.get("/metrics", token=None)[0] == 200
    assert lane.get("/nowhere")[0] == 404


def test_profiling_is_marked_in_the_record(lane: Lane, client: openai.OpenAI) -> None:
    assert lane.get("/start_profile", b"")[0] == 200
    client.completions.create(model="lab-tiny", prompt="profiled", max_tokens=8)
    assert lane.get("/stop_profile", b"")[0] == 200
    rows = [json.loads(line) for line in (lane.truth / "steps.jsonl").open()]
    marks = [i for i, row in enumerate(rows) if "mark" in row]
    assert [rows[i]["mark"] for i in marks] == ["profile_start", "profile_stop"]
    assert any(row["kind"] == "verify" for row in rows[marks[0] + 1 : marks[1]])


def test_a_client_that_leaves_is_let_go(tmp_path: Path) -> None:
    lane = start(tmp_path, "--streams", "1", "--context", "4096")
    client = openai.OpenAI(base_url=f"{lane.url}/v1", api_key=TOKEN, max_retries=0)
    stream = client.completions.create(
        model="lab-tiny", prompt="long", max_tokens=4000, temperature=0, stream=True
    )
    next(iter(stream))
    stream.close()
    # one stream only: this answer can come only once the other request has gone
    client.completions.create(model="lab-tiny", prompt="next", max_tokens=2, temperature=0)
    after = lane.series()
    assert after["vllm:request_success_total", "abort"] == 1
    assert after["vllm:generation_tokens_total", ""] < 4000
    lane.process.send_signal(signal.SIGINT)
    assert lane.process.wait(30) == 0
    assert (lane.truth / "routing.parquet").exists()


def test_statistics_lines_tell_what_was_counted(tmp_path: Path) -> None:
    lane = start(tmp_path)
    client = openai.OpenAI(base_url=f"{lane.url}/v1", api_key=TOKEN, max_retries=0)
    client.completions.create(model="lab-tiny", prompt="x", max_tokens=300, temperature=0)
    lane.process.terminate()
    assert lane.process.wait(30) == 0
    lines = [x.split("SLOT_CACHE STATS ")[1] for x in lane.log.open() if "SLOT_CACHE" in x]
    rows = [json.loads(x) for x in (lane.truth / "steps.jsonl").open()]
    cached = [row for row in rows if row.get("misses")]
    passes = misses = 0.0
    for line in lines:
        parts = dict(p.split("=") for p in line.split(": ")[1].split())
        n = int(parts["steps/layer"])
        passes += n
        misses += n * float(parts["misses/step/layer"])
        hit = 1 - float(parts["misses/step/layer"]) / float(parts["routes/step/layer"])
        assert abs(hit - float(parts["HIT"])) < 0.005
    assert passes == len(cached)
    mean = sum(sum(row["misses"]) / len(row["misses"]) for row in cached) / len(cached)
    assert abs(misses / passes - mean) < 0.005
