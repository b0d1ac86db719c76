"""Reading a TOML file into a typed document: a mistake is one line with file, key and remedy."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from lanescope.schemas.errors import UnusableInput

Model = TypeVar("Model", bound=BaseModel)


def mistake(problem: str, remedy: str) -> PydanticCustomError:
    """What a validator raises: the problem with the value, and what to write instead."""
    # the text goes through a field: braces in it (JSON, say) are not a template
    return PydanticCustomError("mistake", "{problem}", {"problem": problem, "remedy": remedy})


def read(path: Path, model: type[Model]) -> Model:
    """The document in the file `path`. Raises `UnusableInput` that names file and key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise UnusableInput(
            f"{path}: {exc.strerror or exc}", "name a file that can be read"
        ) from exc
    except UnicodeDecodeError as exc:
        raise UnusableInput(f"{path}: not UTF-8 at byte {exc.start}", "save it as UTF-8") from exc
    except tomllib.TOMLDecodeError as exc:
        raise UnusableInput(f"{path}: not TOML: {exc}", "correct that place") from exc
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        raise _refusal(path, exc, model) from None


def first_problem(exc: ValidationError) -> str:
    """The first mistake of a document that came from elsewhere than a file."""
    first = exc.errors(include_url=False)[0]
    return _explain(first, BaseModel)[0]


def _refusal(path: Path, exc: ValidationError, model: type[BaseModel]) -> UnusableInput:
    errors = exc.errors(include_url=False)
    # an unknown key usually explains the missing one beside it: say it first
    first = min(errors, key=lambda e: e["type"] != "extra_forbidden")
    # a mistake between keys names them itself
    key = ": " + ".".join(map(str, first["loc"])) if first["loc"] else ""
    more = f"; {len(errors) - 1} more after it" if len(errors) > 1 else ""
    problem, remedy = _explain(first, model)
    return UnusableInput(f"{path}{key}: {problem}{more}", remedy)


def _explain(error: Any, model: type[BaseModel]) -> tuple[str, str]:
    kind, context = error["type"], error.get("ctx") or {}
    if kind == "mistake":
        return context["problem"], context["remedy"]
    if kind == "extra_forbidden":
        known = sorted(_keys_beside(model, error["loc"]))
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the keys here are {', '.join(known)}"
        return "unknown key", hint
    if kind == "missing":
        return "missing", "add this key"
    # pydantic's own words say what was expected; the value itself is not repeated: it may be secret
    text = str(error["msg"])
    return text[0].lower() + text[1:], "correct the value"


def _keys_beside(model: type[BaseModel], loc: tuple[Any, ...]) -> set[str]:
    """The keys that exist where an unknown one was found."""
    here: Any = model
    for part in loc[:-1]:
        field = here.model_fields.get(part) if _is_model(here) else None
        here = _inner(field.annotation) if field is not None else here
    return set(here.model_fields) if _is_model(here) else set()


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _inner(annotation: Any) -> Any:
    """The model inside `X | None`, `list[X]`, `dict[str, X]`."""
    for arg in getattr(annotation, "__args__", ()):
        if _is_model(arg):
            return arg
    return annotation
