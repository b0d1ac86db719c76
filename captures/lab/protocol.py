"""The OpenAI protocol: request bodies to `Sampling`, engine deltas to response bodies."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lanescope.captures.lab.config import LabConfig
from lanescope.captures.lab.requests import Sampling, TokenLogprob
from lanescope.captures.lab.tokens import Tokenizer


class BadRequest(Exception):
    """A body that makes no request: `message`, the parameter at fault, and the status."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.status = status


@dataclass(frozen=True)
class Call:
    """A request body, understood."""

    chat: bool
    prompts: list[list[int]]
    sampling: Sampling
    stream: bool
    usage: bool  # a last chunk with usage and no choices
    continuous_usage: bool  # usage in every chunk


def error_body(message: str, param: str | None, status: int) -> dict[str, Any]:
    """The protocol's error object."""
    kind = {401: "authentication_error", 404: "not_found_error"}.get(
        status, "invalid_request_error" if status < 500 else "server_error"
    )
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def models_body(config: LabConfig, started: int) -> dict[str, Any]:
    """The answer of `/v1/models`."""
    return {
        "object": "list",
        "data": [
            {
                "id": config.model,
                "object": "model",
                "created": started,
                "owned_by": "lanescope",
                "root": config.model,
                "parent": None,
                "max_model_len": config.context,
            }
        ],
    }


def _number(
    body: Mapping[str, Any], name: str, default: Any, low: float, high: float, whole: bool = False
) -> Any:
    value = body.get(name)
    if value is None:
        return default
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "a whole number" if whole else "a number"
        raise BadRequest(f"{name} must be {what} from {low:g} to {high:g}, not {value!r}", name)
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false, not {value!r}", name)
    return bool(value)


def parse(
    body: Any, chat: bool, config: LabConfig, tokenizer: Tokenizer, default_seed: int
) -> Call:
    """Understand a request body. Raises BadRequest."""
    if not isinstance(body, Mapping):
        raise BadRequest("the body must be a JSON object")
    if body.get("model") not in (None, config.model):
        message = f"The model `{body['model']}` does not exist."
        raise BadRequest(message, "model", 404)
    if _number(body, "n", 1, 1, 128, whole=True) != 1:
        raise BadRequest("this engine answers one choice a prompt: n must be 1", "n")
    prompts = _chat_prompt(body, tokenizer) if chat else _prompts(body, config, tokenizer)
    options = body.get("stream_options") or {}
    if not isinstance(options, Mapping):
        raise BadRequest("stream_options must be an object", "stream_options")
    sampling = _sampling(body, chat, config, max(map(len, prompts)), default_seed)
    return Call(
        chat,
        prompts,
        sampling,
        stream=_flag(body, "stream"),
        usage=_flag(options, "include_usage"),
        continuous_usage=_flag(options, "continuous_usage_stats"),
    )


def _sampling(
    body: Mapping[str, Any], chat: bool, config: LabConfig, prompt: int, seed: int
) -> Sampling:
    room = config.context - prompt
    if room < 1:
        raise BadRequest(
            f"This model's maximum context length is {config.context} tokens; "
            f"the prompt alone has {prompt}.",
            "messages" if chat else "prompt",
        )
    name = "max_completion_tokens" if body.get("max_completion_tokens") else "max_tokens"
    wanted = _number(body, name, min(room, 256 if chat else 16), 0, 10**9, whole=True)
    if wanted > room:
        raise BadRequest(
            f"This model's maximum context length is {config.context} tokens; you asked for "
            f"{wanted + prompt} ({prompt} in the prompt, {wanted} in the completion).",
            name,
        )
    echo = _flag(body, "echo") and not chat
    if wanted == 0 and not echo:
        raise BadRequest(f"{name} must be at least 1", name)
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(s, str) and s for s in stop):
        raise BadRequest("stop must be a string or a list of strings", "stop")
    if chat:
        count = _number(body, "top_logprobs", 0, 0, 20, whole=True)
        logprobs = count if _flag(body, "logprobs") else None
    else:
        logprobs = _number(body, "logprobs", None, 0, 20, whole=True)
    return Sampling(
        max_tokens=wanted,
        temperature=float(_number(body, "temperature", 1.0, 0, 10)),
        top_p=float(_number(body, "top_p", 1.0, 1e-9, 1)),
        seed=_number(body, "seed", seed, 0, 2**63, whole=True),
        stop=tuple(stop),
        logprobs=logprobs,
        echo=echo,
    )


def _chat_prompt(body: Mapping[str, Any], tokenizer: Tokenizer) -> list[list[int]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message", "messages")
    text = ""
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadRequest("each message needs a role and content", "messages")
        text += f"<{message['role']}>{_content(message.get('content'))}\n"
    return [tokenizer.encode(f"{text}<assistant>")]


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, Mapping)]
        if len(parts) == len(content) and all(isinstance(p, str) for p in parts):
            return "".join(map(str, parts))
    raise BadRequest("content must be text, or a list of text parts", "messages")


def _prompts(body: Mapping[str, Any], config: LabConfig, tokenizer: Tokenizer) -> list[list[int]]:
    """The prompts of a completion: a text, texts, token ids, or lists of token ids."""
    prompt = body.get("prompt")
    several = prompt if isinstance(prompt, list) else [prompt]
    if several and all(isinstance(p, int) for p in several):
        several = [several]
    prompts: list[list[int]] = []
    for one in several:
        if isinstance(one, str):
            one = tokenizer.encode(one)
        known = isinstance(one, list) and all(
            isinstance(t, int) and not isinstance(t, bool) and 0 <= t < config.vocab for t in one
        )
        if not known or not one:
            raise BadRequest("prompt must be text or token ids, and not empty", "prompt")
        prompts.append(one)
    if not prompts:
        raise BadRequest("prompt is empty", "prompt")
    return prompts


def usage(prompt: int, completion: int) -> dict[str, int]:
    """The usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


class Writer:
    """Makes the bodies of one call's answer."""

    def __init__(self, call: Call, config: LabConfig, tokenizer: Tokenizer) -> None:
        self._call, self._tokenizer = call, tokenizer
        self._head: dict[str, Any] = {
            "id": f"{'chatcmpl' if call.chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": "",
            "created": int(time.time()),
            "model": config.model,
        }

    def body(
        self, choices: Sequence[Any], used: dict[str, int] | None, **more: Any
    ) -> dict[str, Any]:
        """A response or a chunk."""
        kind = "text_completion"
        if self._call.chat:
            kind = "chat.completion.chunk" if self._call.stream else "chat.completion"
        made = {**self._head, "object": kind, "choices": list(choices), **more}
        return made if used is None else {**made, "usage": used}

    def choice(
        self,
        index: int,
        text: str,
        probs: Sequence[TokenLogprob],
        finish: str | None,
        offset: int = 0,
    ) -> dict[str, Any]:
        """A choice of a whole answer or of a chunk. `offset` is where its text begins."""
        wanted = self._call.sampling.logprobs is not None
        if not self._call.chat:
            listed = self._completion_logprobs(probs, offset) if wanted else None
            return {"index": index, "text": text, "logprobs": listed, "finish_reason": finish}
        listed = {"content": [self._chat_logprob(p) for p in probs]} if wanted else None
        part = "delta" if self._call.stream else "message"
        content = {"content": text} if self._call.stream else {"role": "assistant", "content": text}
        return {"index": index, part: content, "logprobs": listed, "finish_reason": finish}

    def role(self, index: int) -> dict[str, Any]:
        """The first choice of a chat stream: a role and no token."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _completion_logprobs(self, probs: Iterable[TokenLogprob], offset: int) -> dict[str, Any]:
        tokens, values, tops, offsets = [], [], [], []
        for prob in probs:
            text = self._tokenizer.decode([prob.token])
            tokens.append(text)
            values.append(prob.value)
            best = {self._tokenizer.decode([t]): v for t, v in prob.top}
            tops.append(None if prob.value is None else {**best, text: prob.value})
            offsets.append(offset)
            offset += len(text)
        return {
            "tokens": tokens,
            "token_logprobs": values,
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _chat_logprob(self, prob: TokenLogprob) -> dict[str, Any]:
        def entry(token: int, value: float | None) -> dict[str, Any]:
            text = self._tokenizer.decode([token])
            return {"token": text, "logprob": value, "bytes": list(text.encode())}

        return {
            **entry(prob.token, prob.value),
            "top_logprobs": [entry(t, v) for t, v in prob.top],
        }
