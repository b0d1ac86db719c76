"""One authenticated completion: the proof that a lane serves.

Standard library only: this file is also a part of the restore script.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

#: no proxy between this machine and its own lane, whatever the environment says
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(
    url: str, key: str = "", body: Any = None, timeout: float = 60.0, method: str = ""
) -> tuple[int, str]:
    """Status and text of a request; status 0 and the reason where no answer came."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method or None)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode(errors="replace")
    except (OSError, ValueError) as exc:
        return 0, str(getattr(exc, "reason", exc))


def read_key(source: dict[str, str] | None) -> str:
    """The bearer token of `{"file": path}`; empty where the lane has none."""
    return Path(source["file"]).read_text().strip() if source else ""


def serving(ready: dict[str, Any], key: str, timeout: float = 60.0) -> str:
    """Why a lane does not serve; empty where it does: health, served model, one completion."""
    status, text = ask(ready["url"] + ready["health"], key, timeout=10)
    if status != 200:
        return f"{ready['health']} gave {status or 'no answer'}: {text[:100]}"
    status, text = ask(ready["url"] + ready["models"], key, timeout=10)
    try:
        names = [m["id"] for m in json.loads(text)["data"]] if status == 200 else []
    except (ValueError, KeyError, TypeError):
        names = []
    if ready["model"] not in names:
        return f"{ready['models']} gave {status or 'no answer'}, without {ready['model']}: {names}"
    body: dict[str, Any] = {"model": ready["model"], "max_tokens": 4, "temperature": 0}
    words = "Say WINDOW"
    if ready["completions"].endswith("chat/completions"):
        body["messages"] = [{"role": "user", "content": words}]
    else:
        body["prompt"] = words
    status, text = ask(ready["url"] + ready["completions"], key, body, timeout)
    if status != 200:
        return f"a completion gave {status or 'no answer'}: {text[:100]}"
    try:
        generated = json.loads(text)["usage"]["completion_tokens"]
    except (ValueError, KeyError, TypeError):
        generated = len(json.loads(text).get("choices", [])) if text.startswith("{") else 0
    return "" if generated else "a completion came back empty"
