"""Keeping secrets out of every byte that is written.

A `Redactor` knows the values that must not appear and the forms that give a secret away. Receipts,
logs and errors pass through it; structured environments never carry values at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from lanescope.schemas.documents.lane import option_values
from lanescope.schemas.documents.secrecy import (
    BEARER,
    URL_PASSWORD,
    looks_secret_name,
    looks_secret_value,
    url_password,
)

HIDDEN = "[redacted]"
#: shorter values are words (`1`, `true`, `spawn`), not secrets
SHORTEST = 6
_ASSIGNED = re.compile(
    r"""(?P<head>(?:(?P<option>-{1,2}[A-Za-z][\w\-]*)["']?(?:\s*[=,]\s*|\s+)"""
    r"""|(?P<name>[A-Za-z][\w\-]*)["']?\s*[=:]\s*)["'\[(]*)(?P<secret>[^\s"',;&\])]+)"""
)


def fingerprint(value: str) -> str:
    """Tells whether two values are equal without showing them."""
    return "sha256:" + hashlib.sha256(value.encode()).hexdigest()[:16]


def environment_names(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment fit for a receipt: names, and fingerprints of what is not secret."""
    return {
        name: HIDDEN if is_secret(name, value) else fingerprint(value)
        for name, value in sorted(environment.items())
    }


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret, by its name or by the looks of its value."""
    return (
        looks_secret_name(name) or looks_secret_value(value) or bool(url_password(value))
    ) and bool(value)


def secrets_in_environment(environment: Mapping[str, str]) -> set[str]:
    """The secret values of an environment, passwords inside addresses among them."""
    found = set()
    for name, value in environment.items():
        if looks_secret_name(name) or looks_secret_value(value):
            found.add(value)
        if password := url_password(value):
            found.add(password)
    return found


def secrets_in_command(words: Iterable[str]) -> set[str]:
    """The secret values of a command line: `--api-key X`, tokens, passwords in addresses."""
    found = set()
    for option, value in option_values(list(words)):
        if value and (looks_secret_name(option) or looks_secret_value(value)):
            found.add(value)
        if password := url_password(value):
            found.add(password)
    return found


class Redactor:
    """Replaces known secrets, and what has the form of one, in any text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values: set[str] = set()
        self.learn(values)
        self.learn(secrets_in_environment(os.environ))

    def learn(self, values: Iterable[str]) -> None:
        """Values that must not appear from now on."""
        self.values |= {v for v in values if len(v) >= SHORTEST}
        self._forms = sorted({f for v in self.values for f in forms(v)}, key=len, reverse=True)

    def known(self, text: str) -> str:
        """The text without known values, passwords in addresses, and bearer tokens."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        text = URL_PASSWORD.sub(lambda m: m["head"] + HIDDEN + "@", text)
        return BEARER.sub(lambda m: m["head"] + HIDDEN, text)

    def text(self, text: str) -> str:
        """The text without those, and without what an assignment names as secret."""
        return _ASSIGNED.sub(_hide_assigned, self.known(text))

    def data(self, data: Any, name: str = "") -> Any:
        """The same structure with every string redacted."""
        if isinstance(data, str):
            return HIDDEN if name and data and looks_secret_name(name) else self.text(data)
        if isinstance(data, Mapping):
            return {self.text(str(k)): self.data(v, str(k)) for k, v in data.items()}
        if isinstance(data, list | tuple):
            return self._words([str(d) if isinstance(d, str) else d for d in data])
        return data

    def _words(self, words: list[Any]) -> list[Any]:
        """A list, read as a command line: the word after `--api-key` goes too."""
        out, hide = [], False
        for word in words:
            out.append(HIDDEN if hide and isinstance(word, str) else self.data(word))
            bare = isinstance(word, str) and word.startswith("-") and "=" not in word
            hide = bare and looks_secret_name(word)
        return out


def forms(value: str) -> set[str]:
    """The ways in which a value may be spelled in a file."""
    return {value, json.dumps(value)[1:-1], quote(value, safe=""), quote(value)}


def _hide_assigned(match: re.Match[str]) -> str:
    """`HF_TOKEN=x`, `--api-key x`, `"password": "x"`: hidden by the name before the value."""
    value = match["secret"]
    if value == HIDDEN or not looks_secret_name(match["option"] or match["name"]):
        return match[0]
    # figures (`max_token: 64}`) and what opens a structure are not secrets
    plain = re.fullmatch(r"[\d.]+}*|(true|false|null|None)}*|{.*", value)
    return match[0] if plain else match["head"] + HIDDEN
