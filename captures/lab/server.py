"""The HTTP side: the OpenAI protocol over the engine, metrics, health and profiling, in aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from lanescope.captures.lab.engine import Engine
from lanescope.captures.lab.protocol import (
    BadRequest,
    Call,
    Writer,
    error_body,
    models_body,
    parse,
    usage,
)
from lanescope.captures.lab.requests import Delta, Request
from lanescope.schemas.errors import UsageError

log = logging.getLogger("lanescope.lab")
_ENGINE: web.AppKey[Engine] = web.AppKey("engine")
_STARTED: web.AppKey[int] = web.AppKey("started", int)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EngineGone(Exception):
    """The engine's thread ended while a request was under way."""


@dataclass
class _Answer:
    """One prompt's answer so far."""

    index: int
    request: Request
    text: str = ""
    probs: list[Any] = field(default_factory=list)
    finish: str | None = None

    @property
    def used(self) -> dict[str, int]:
        return usage(len(self.request.prompt), len(self.request.output))


def build(engine: Engine, token: str | None = None) -> web.Application:
    """The application over a started engine. With `token`, `/v1/*` and profiling need it."""
    app = web.Application(middlewares=[_errors, _authorized(token)], client_max_size=64 * 2**20)
    app[_ENGINE] = engine
    app[_STARTED] = int(time.time())
    app.add_routes(
        [
            web.get("/health", _health),
            web.get("/metrics", _metrics),
            web.get("/v1/models", _models),
            web.post("/v1/completions", _completions),
            web.post("/v1/chat/completions", _chat),
            web.post("/start_profile", _profile(True)),
            web.post("/stop_profile", _profile(False)),
        ]
    )
    return app


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal in the protocol's own shape."""
    try:
        return await handler(request)
    except BadRequest as exc:
        body = error_body(str(exc), exc.param, exc.status)
        return web.json_response(body, status=exc.status)
    except EngineGone:
        return web.json_response(error_body("the engine has stopped", None, 503), status=503)
    except web.HTTPException as exc:
        return web.json_response(error_body(exc.reason, None, exc.status), status=exc.status)


def _authorized(token: str | None) -> Any:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        open_to_all = request.path in ("/health", "/metrics")
        if token and not open_to_all:
            given = request.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                raise BadRequest("a valid bearer token is needed", status=401)
        return await handler(request)

    return check


async def _health(request: web.Request) -> web.Response:
    return web.Response(status=200 if request.app[_ENGINE].alive else 503)


async def _metrics(request: web.Request) -> web.Response:
    body = request.app[_ENGINE].counters.exposition()
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _models(request: web.Request) -> web.Response:
    return web.json_response(models_body(request.app[_ENGINE].config, request.app[_STARTED]))


def _profile(on: bool) -> Handler:
    async def switch(request: web.Request) -> web.Response:
        """Answers once the engine has really switched."""
        engine = request.app[_ENGINE]
        done = engine.profile(on)
        while not done.is_set():
            if not engine.alive:
                raise EngineGone
            await asyncio.sleep(0.002)
        return web.Response()

    return switch


async def _completions(request: web.Request) -> web.StreamResponse:
    return await _answer(request, chat=False)


async def _chat(request: web.Request) -> web.StreamResponse:
    return await _answer(request, chat=True)


async def _answer(http: web.Request, chat: bool) -> web.StreamResponse:
    engine = http.app[_ENGINE]
    try:
        body = json.loads(await http.read())
    except ValueError as exc:
        raise BadRequest(f"the body is not JSON: {exc}") from exc
    call = parse(body, chat, engine.config, engine.tokenizer, default_seed=engine.config.seed)
    writer = Writer(call, engine.config, engine.tokenizer)
    if not engine.alive:
        raise EngineGone
    answers, arriving = _submitted(engine, call)
    try:
        if call.stream:
            return await _stream(http, engine, call, writer, answers, arriving)
        return await _whole(engine, call, writer, answers, arriving)
    finally:  # the client may have gone
        for answer in answers:
            if answer.finish is None:
                engine.abort(answer.request)


def _submitted(
    engine: Engine, call: Call
) -> tuple[list[_Answer], asyncio.Queue[tuple[int, Delta]]]:
    loop = asyncio.get_running_loop()
    arriving: asyncio.Queue[tuple[int, Delta]] = asyncio.Queue()
    answers: list[_Answer] = []
    for index, prompt in enumerate(call.prompts):

        def emit(delta: Delta, index: int = index) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone at shutdown
                loop.call_soon_threadsafe(arriving.put_nowait, (index, delta))

        answers.append(_Answer(index, Request(prompt, call.sampling, emit)))
    for answer in answers:
        engine.submit(answer.request)
    return answers, arriving


async def _deltas(
    engine: Engine, answers: list[_Answer], arriving: asyncio.Queue[tuple[int, Delta]]
) -> AsyncIterator[tuple[_Answer, Delta]]:
    """What the engine says, until every answer is finished; their texts grow on the way."""
    while any(a.finish is None for a in answers):
        try:
            index, delta = await asyncio.wait_for(arriving.get(), timeout=1.0)
        except TimeoutError:
            if not engine.alive:
                raise EngineGone from None
            continue
        answer = answers[index]
        answer.text += delta.text
        answer.probs += delta.logprobs
        answer.finish = delta.finish
        yield answer, delta


def _total(answers: list[_Answer]) -> dict[str, int]:
    return usage(
        sum(len(a.request.prompt) for a in answers), sum(len(a.request.output) for a in answers)
    )


def _echoed(engine: Engine, answer: _Answer) -> str:
    request = answer.request
    return engine.tokenizer.decode(request.prompt) if request.sampling.echo else ""


async def _whole(
    engine: Engine,
    call: Call,
    writer: Writer,
    answers: list[_Answer],
    arriving: asyncio.Queue[tuple[int, Delta]],
) -> web.Response:
    async for _ in _deltas(engine, answers, arriving):
        pass
    choices = []
    for answer in answers:
        probs = [*answer.request.prompt_logprobs, *answer.probs]
        text = _echoed(engine, answer) + answer.text
        choices.append(writer.choice(answer.index, text, probs, answer.finish))
    return web.json_response(writer.body(choices, _total(answers)))


async def _stream(
    http: web.Request,
    engine: Engine,
    call: Call,
    writer: Writer,
    answers: list[_Answer],
    arriving: asyncio.Queue[tuple[int, Delta]],
) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
    )
    await response.prepare(http)

    async def send(choices: list[Any], used: dict[str, int] | None) -> None:
        body = json.dumps(writer.body(choices, used), ensure_ascii=False)
        await response.write(f"data: {body}\n\n".encode())

    def continuous(answer: _Answer, completion: int) -> dict[str, int] | None:
        return usage(len(answer.request.prompt), completion) if call.continuous_usage else None

    lengths = [0] * len(answers)  # characters and tokens sent so far
    sent = [0] * len(answers)
    fresh = {a.index for a in answers if a.request.sampling.echo}
    if call.chat:
        for answer in answers:
            await send([writer.role(answer.index)], continuous(answer, 0))
    try:
        async for answer, delta in _deltas(engine, answers, arriving):
            index, text, probs = answer.index, delta.text, list(delta.logprobs)
            if index in fresh:
                fresh.remove(index)
                text = _echoed(engine, answer) + text
                probs = answer.request.prompt_logprobs + probs
            sent[index] += len(delta.tokens)
            choice = writer.choice(index, text, probs, delta.finish, lengths[index])
            lengths[index] += len(text)
            await send([choice], continuous(answer, sent[index]))
    except EngineGone:  # the status line is out: the stream itself must say it
        gone = json.dumps(error_body("the engine has stopped", None, 503))
        await response.write(f"data: {gone}\n\n".encode())
        return response
    if call.usage:
        await send([], _total(answers))
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def serve(
    engine: Engine,
    host: str,
    port: int,
    token: str | None = None,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until the engine's thread ends; then close the engine.

    `ready` is told the port once the socket listens (port 0 takes a free one). Raises UsageError
    where the address cannot be had.
    """
    runner = web.AppRunner(build(engine, token), handler_cancellation=True, access_log=None)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop.set)
    try:
        await runner.setup()
        site = web.TCPSite(runner, host, port, shutdown_timeout=1.0)
        try:
            await site.start()
        except OSError as exc:
            raise UsageError(f"cannot listen on {host}:{port}: {exc.strerror}", "--port") from exc
        if ready:
            ready(runner.addresses[0][1])
        while not stop.is_set() and engine.alive:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.5)
    finally:
        await asyncio.to_thread(engine.close)
        await runner.cleanup()
