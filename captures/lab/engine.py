"""The engine: one thread that admits requests, prefills in chunks and verifies in batches.

Continuous batching, as simple as it can be and still real: each turn of the loop admits what fits,
runs one prefill pass for the oldest stream that needs one, then one verification step over all
streams that decode.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lanescope.captures.lab.backend import Backend, Floats, Verified
from lanescope.captures.lab.config import LabConfig
from lanescope.captures.lab.counters import Counters
from lanescope.captures.lab.requests import Delta, Request, TokenLogprob, choose, logprob
from lanescope.captures.lab.tokens import Tokenizer
from lanescope.captures.lab.truthlog import Pass, Record

log = logging.getLogger("lanescope.lab")


@dataclass
class _Stream:
    """A request in a place of the key-value cache. `done` prompt tokens are prefilled."""

    place: int
    request: Request
    done: int = 0

    @property
    def decoding(self) -> bool:
        return self.done >= len(self.request.prompt)


class Engine:
    """Runs requests on a backend. `start`, `submit`, `abort`, `profile` and `close` may be called
    from any thread."""

    def __init__(
        self,
        config: LabConfig,
        backend: Backend,
        truth: Record | None = None,
        stats_every_s: float = 20.0,
    ) -> None:
        self.config = config
        self.tokenizer = Tokenizer(config.vocab)
        self.counters = Counters(config)
        self._backend = backend
        self._truth = truth
        self._stats_every_s = stats_every_s
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting: list[Request] = []
        self._streams: list[_Stream] = []
        self._free = list(range(config.streams - 1, -1, -1))
        self._step = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="lab-engine", daemon=True)
        #: what ended the engine's thread before its time, if anything did
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the engine's thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether requests can still be served."""
        return self._thread.is_alive()

    def submit(self, request: Request) -> None:
        """Queue a request; its `emit` is called from the engine's thread."""
        self._inbox.put(lambda: self._waiting.append(request))

    def abort(self, request: Request) -> None:
        """End a request at the next turn, if it is still running."""

        def mark() -> None:
            request.aborted = True

        self._inbox.put(mark)

    def profile(self, on: bool) -> threading.Event:
        """Begin or end the profiled range between two turns; the event is set once it is done."""
        done = threading.Event()

        def switch() -> None:
            if self._truth:
                self._truth.mark("profile_start" if on else "profile_stop")
            self._backend.profile(on)
            done.set()

        self._inbox.put(switch)
        return done

    def close(self) -> None:
        """End all requests, stop the thread and give the device back."""

        def stop() -> None:
            self._stopping = True

        if self._thread.is_alive():
            self._inbox.put(stop)
            self._thread.join()
        if self._truth:
            self._truth.close()
        self._backend.close()

    def _run(self) -> None:
        printed = time.monotonic()
        try:
            while not self._stopping:
                self._read_inbox(wait=not self._waiting and not self._streams)
                self._turn()
                if time.monotonic() >= printed + self._stats_every_s:
                    printed += self._stats_every_s
                    self._print_stats(self._stats_every_s)
        except BaseException as exc:
            self.failure = exc
            log.exception("the engine stopped")
            raise
        finally:
            for request in [*self._waiting, *(s.request for s in self._streams)]:
                request.aborted = True
            self._drop_aborted()
            self._print_stats(round(time.monotonic() - printed, 1))

    def _read_inbox(self, wait: bool) -> None:
        """Do what was asked for; with nothing to run, wait a little for something."""
        try:
            self._inbox.get(timeout=0.2)() if wait else self._inbox.get_nowait()()
            while True:
                self._inbox.get_nowait()()
        except queue.Empty:
            return

    def _turn(self) -> None:
        self._drop_aborted()
        while self._free and self._waiting:
            self._streams.append(_Stream(self._free.pop(), self._waiting.pop(0)))
        pending = next((s for s in self._streams if not s.decoding), None)
        self._gauge()
        if pending:
            self._prefill(pending)
        decoding = [s for s in self._streams if s.decoding]
        if decoding:
            self._verify(decoding)

    def _prefill(self, stream: _Stream) -> None:
        request, start = stream.request, stream.done
        tokens = request.prompt[start : start + self.config.chunk]
        cached = len(tokens) <= self.config.bypass_over
        echo = request.sampling.echo and request.sampling.logprobs is not None
        began = time.time_ns()
        result = self._backend.prefill(self._step, stream.place, tokens, start, cached, echo)
        self._record(Pass("prefill", began, [request.name], len(tokens), result.routing))
        stream.done += len(tokens)
        if echo:
            self._prompt_logprobs(request, start, result.logits)
        if stream.decoding:
            self.counters.prompt_tokens += len(request.prompt)
            row = result.logits[-1]
            wanted = request.sampling.max_tokens > 0
            self._give(stream, [choose(row, request.sampling, request.length)] * wanted, [row])

    def _prompt_logprobs(self, request: Request, start: int, logits: Floats) -> None:
        """Row i of a pass is the distribution of the prompt's token start + i + 1."""
        count = request.sampling.logprobs or 0
        if start == 0:
            request.prompt_logprobs.append(TokenLogprob(request.prompt[0], None))
        following = request.prompt[start + 1 : start + 1 + len(logits)]
        for row, token in zip(logits, following, strict=False):
            request.prompt_logprobs.append(logprob(row, token, count))

    def _verify(self, streams: list[_Stream]) -> None:
        requests = [s.request for s in streams]
        began = time.time_ns()
        result = self._backend.verify(
            self._step,
            [s.place for s in streams],
            [r.length - 1 for r in requests],
            [(r.output or r.prompt)[-1] for r in requests],
            logits=any(r.needs_logits for r in requests),
        )
        offered = [self._accept(request, result, i) for i, request in enumerate(requests)]
        accepted = [len(tokens) - 1 for tokens in offered]
        self._record(
            Pass(
                "verify",
                began,
                [r.name for r in requests],
                len(streams) * (self.config.k + 1),
                result.routing,
                accepted=accepted,
                eager=result.eager,
                noisy=result.noisy,
            )
        )
        for i, stream in enumerate(streams):
            self.counters.drafted(self.config.k, accepted[i])
            rows = [] if result.logits is None else list(result.logits[i])
            self._give(stream, offered[i], rows)

    def _accept(self, request: Request, result: Verified, i: int) -> list[int]:
        """The tokens that a step gives a stream: the accepted drafts and the one after them."""
        tokens: list[int] = []
        for j in range(self.config.k + 1):
            if request.sampling.temperature > 0 and result.logits is not None:
                at = request.length + j
                tokens.append(choose(result.logits[i, j], request.sampling, at))
            else:
                tokens.append(int(result.choices[i, j]))
            if j == self.config.k or int(result.drafts[i, j]) != tokens[j]:
                break
        return tokens

    def _give(self, stream: _Stream, tokens: list[int], rows: Sequence[Floats]) -> None:
        request = stream.request
        count = request.sampling.logprobs
        probs = []
        if count is not None:
            probs = [logprob(row, t, count) for row, t in zip(rows, tokens, strict=False)]
        first = request.first_token_at is None
        delta = request.take(tokens, probs, self.tokenizer)
        self.counters.generation_tokens += len(delta.tokens)
        if first and request.first_token_at is not None:
            self.counters.first_token_after(request.first_token_at - request.arrived)
        self._tell(stream, delta)

    def _tell(self, stream: _Stream, delta: Delta) -> None:
        """Count first, then tell: a client that reads `/metrics` next finds itself there."""
        if delta.finish:
            self._streams.remove(stream)
            self._free.append(stream.place)
            self.counters.finished(delta.finish)
            self._gauge()
        stream.request.emit(delta)

    def _record(self, done: Pass) -> None:
        """A pass is over: count its misses, write it down, go to the next step."""
        if done.routing.misses is not None:
            self.counters.layer_steps(done.routing.misses, done.rows * self.config.topk)
        if self._truth:
            self._truth.passed(self._step, done)
        self._step += 1

    def _drop_aborted(self) -> None:
        for request in [r for r in self._waiting if r.aborted]:
            self._waiting.remove(request)
            self.counters.finished("abort")
            request.emit(request.end("abort"))
        for stream in [s for s in self._streams if s.request.aborted]:
            self._tell(stream, stream.request.end("abort"))

    def _gauge(self) -> None:
        c = self.counters
        c.running, c.waiting = len(self._streams), len(self._waiting)
        used = sum(s.request.length for s in self._streams)
        c.kv_share = used / (self.config.context * self.config.streams)

    def _print_stats(self, window_s: float) -> None:
        line = self.counters.stats_line(window_s)
        if line:
            log.info(line)
