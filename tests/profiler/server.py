"""A small OpenAI-compatible server that annotates its steps with NVTX: the engine of these tests.

Stands in for an engine where there is no GPU. Standard library only (and `nvtx` where it is
installed), so that it also runs inside a container that mounts this machine's Python. Every
misbehaviour of the fault matrix is a flag.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

try:
    import nvtx

    def annotate(name: str) -> Any:
        return nvtx.annotate(name)
except ImportError:
    nvtx = None  # type: ignore[assignment]

    def annotate(name: str) -> Any:
        return nullcontext()


class Counters:
    """The figures that `/metrics` shows, under vLLM's names."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values = dict.fromkeys(
            ("success", "prompt", "generation", "drafts", "drafted", "accepted"), 0
        )
        self.running = 0

    def add(self, **amounts: int) -> None:
        with self.lock:
            for key, amount in amounts.items():
                self.values[key] += amount

    def text(self, model: str) -> str:
        v, label = self.values, f'{{model_name="{model}"}}'
        done = f'{{model_name="{model}",finished_reason="length"}}'
        return (
            "# TYPE vllm:num_requests_running gauge\n"
            f"vllm:num_requests_running{label} {self.running}\n"
            "# TYPE vllm:num_requests_waiting gauge\n"
            f"vllm:num_requests_waiting{label} 0\n"
            "# TYPE vllm:request_success_total counter\n"
            f"vllm:request_success_total{done} {v['success']}\n"
            "# TYPE vllm:prompt_tokens_total counter\n"
            f"vllm:prompt_tokens_total{label} {v['prompt']}\n"
            "# TYPE vllm:generation_tokens_total counter\n"
            f"vllm:generation_tokens_total{label} {v['generation']}\n"
            "# TYPE vllm:spec_decode_num_drafts_total counter\n"
            f"vllm:spec_decode_num_drafts_total{label} {v['drafts']}\n"
            "# TYPE vllm:spec_decode_num_draft_tokens_total counter\n"
            f"vllm:spec_decode_num_draft_tokens_total{label} {v['drafted']}\n"
            "# TYPE vllm:spec_decode_num_accepted_tokens_total counter\n"
            f"vllm:spec_decode_num_accepted_tokens_total{label} {v['accepted']}\n"
        )


class Handler(BaseHTTPRequestHandler):
    """The OpenAI routes, the health and metrics routes, the profile routes."""

    protocol_version = "HTTP/1.1"
    options: argparse.Namespace
    counters = Counters()
    requests_seen = 0

    def log_message(self, *args: Any) -> None:
        headers = f" {self.headers.get('Authorization')}" if self.options.log_headers else ""
        print(f"{self.command} {self.path}{headers}", flush=True)

    def answer(self, status: int, body: str, kind: str = "application/json") -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def allowed(self) -> bool:
        key = self.options.api_key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.answer(401, '{"error": "unauthorized"}')
            return False
        return True

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, "{}")
        elif self.path == "/metrics" and not self.options.no_metrics:
            self.answer(200, self.counters.text(self.options.model), "text/plain; version=0.0.4")
        elif self.path == "/v1/models" and self.allowed():
            self.answer(200, json.dumps({"data": [{"id": self.options.model}]}))
        elif self.path not in ("/v1/models",):
            self.answer(404, '{"error": "not found"}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.allowed():
            return
        if self.path in ("/start_profile", "/stop_profile"):
            self.profile(self.path)
        elif self.path in ("/v1/completions", "/v1/chat/completions"):
            self.complete(json.loads(body))
        else:
            self.answer(404, '{"error": "not found"}')

    def profile(self, path: str) -> None:
        capture(path == "/start_profile")
        self.answer(200, "{}")

    def complete(self, request: dict[str, Any]) -> None:
        Handler.requests_seen += 1
        if self.options.die_after and Handler.requests_seen > self.options.die_after:
            os._exit(9)
        prompt = request.get("prompt") or json.dumps(request.get("messages"))
        prompt_tokens, wanted = len(str(prompt).split()), int(request.get("max_tokens", 4))
        self.counters.running += 1
        try:
            if request.get("stream"):
                self.stream(request, prompt_tokens, wanted)
            else:
                self.generate(wanted, lambda done: None)
                usage = {"prompt_tokens": prompt_tokens, "completion_tokens": wanted}
                choice = {"text": "WINDOW " * wanted, "message": {"content": "ok"}}
                self.count(prompt_tokens, wanted)
                self.answer(200, json.dumps({"choices": [choice], "usage": usage}))
        finally:
            self.counters.running -= 1

    def count(self, prompt_tokens: int, wanted: int) -> None:
        self.counters.add(success=1, prompt=prompt_tokens, generation=wanted)

    def generate(self, wanted: int, emit: Any) -> None:
        """K+1 tokens a verification step, of which two are always accepted here."""
        with annotate("prefill"):
            time.sleep(self.options.step_s)
        done = 0
        while done < wanted:
            with annotate("spec_verify"):
                time.sleep(self.options.step_s)
            gained = min(2, wanted - done)
            done += gained
            self.counters.add(drafts=1, drafted=1, accepted=gained - 1)
            emit(done)

    def stream(self, request: dict[str, Any], prompt_tokens: int, wanted: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        usage = {} if self.options.no_usage else request.get("stream_options") or {}

        def event(data: dict[str, Any]) -> None:
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

        def figures(done: int) -> dict[str, int]:
            return {"prompt_tokens": prompt_tokens, "completion_tokens": done}

        def emit(done: int) -> None:
            chunk: dict[str, Any] = {"choices": [{"text": " ab", "delta": {"content": " ab"}}]}
            if usage.get("continuous_usage_stats"):
                chunk["usage"] = figures(done)
            event(chunk)

        self.generate(wanted, emit)
        self.count(prompt_tokens, wanted)
        if usage.get("include_usage"):
            event({"choices": [], "usage": figures(wanted)})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


def poll(file: Path) -> None:
    """What a hook in an engine does: read the word, act on it, write it back."""
    done = ""
    while True:
        word = file.read_text().strip() if file.exists() else ""
        if word and word != done:
            capture(word == "start")
            partial = file.with_name(file.name + ".ack.partial")
            partial.write_text(word)
            partial.rename(file.with_name(file.name + ".ack"))
            done = word
        time.sleep(0.02)


RANGES: list[Any] = []


def capture(start: bool) -> None:
    """Open or close the range that nsys waits for (a GPU engine calls cudaProfilerStart)."""
    if start and nvtx is not None:
        RANGES.append(nvtx.start_range("lanescope_capture"))
    elif RANGES:
        nvtx.end_range(RANGES.pop())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--api-key", default=os.environ.get("SERVER_API_KEY", ""))
    parser.add_argument("--step-s", type=float, default=0.002)
    parser.add_argument("--die-after", type=int, default=0, help="die at the request after this")
    parser.add_argument("--exit-at-once", action="store_true")
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--no-metrics", action="store_true")
    parser.add_argument("--no-usage", action="store_true")
    parser.add_argument("--log-headers", action="store_true")
    parser.add_argument("--control-file", default="", help="polled: start or stop the capture")
    parser.add_argument("--note", nargs="?", default="", help="not used: a place for planted text")
    parser.add_argument("--fail-once", default="", help="exit 3 if this file exists, removing it")
    parser.add_argument("--leave-child", action="store_true", help="the port lives in a child")
    options = parser.parse_args()
    if options.exit_at_once:
        sys.exit(3)
    if options.fail_once and Path(options.fail_once).exists():
        Path(options.fail_once).unlink()
        sys.exit(3)
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if options.never_ready:
        threading.Event().wait()
    if options.leave_child:
        rest = [a for a in sys.argv if a != "--leave-child"]
        subprocess.Popen([sys.executable, *rest, "--ignore-term"], start_new_session=True).wait()
    Handler.options = options
    if options.control_file:
        threading.Thread(target=poll, args=(Path(options.control_file),), daemon=True).start()
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    print(f"serving {options.model} on {options.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
