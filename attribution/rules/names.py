"""The function name of a kernel, the same from its short, demangled or mangled form.

Rules look at this name alone: words inside template arguments or parameters decide nothing.
"""

from __future__ import annotations

import re

_PARAMETERS = re.compile(r"^(?P<head>.*?)(?:\[clone [^\]]*\]\s*)*$", re.DOTALL)
_LENGTH = re.compile(r"\d+")


def function_name(short: str | None, demangled: str | None, mangled: str | None) -> str:
    """The base name of a kernel function; '' where the export has no name at all."""
    for text in (short, demangled, mangled):
        if text:
            return base_name(text)
    return ""


def base_name(text: str) -> str:
    """The base name in one form of a kernel name.

    `void at::native::elementwise_kernel<128, 4, f(int)>(int, T1)`, `_ZN2at6native18elementwise…`
    and `elementwise_kernel` all give `elementwise_kernel`.
    """
    text = text.strip()
    if text.startswith("_Z"):
        return _from_mangled(text) or text
    head = _without_brackets(text)
    # What is left reads `return_type ns::name`; a name with blanks in it is no C++ name.
    head = head.split(" [clone", 1)[0].strip()
    if "::" in head or " " in head:
        head = head.split("::")[-1].split(" ")[-1] if _looks_like_cpp(text) else head
    return head or text


def _looks_like_cpp(text: str) -> bool:
    return "::" in text or "(" in text or text.startswith("void ")


def _without_brackets(text: str) -> str:
    """Drop `<…>` and `(…)` with all that is nested in them, keeping operator names readable."""
    text = text.replace("(anonymous namespace)", "").replace("<unnamed>", "")
    out: list[str] = []
    depth = 0
    for char in text:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif depth == 0:
            out.append(char)
    return "".join(out)


def _from_mangled(text: str) -> str:
    """The last identifier of an Itanium-mangled function name, before its template arguments."""
    at = 2
    nested = text.startswith("N", at)
    at += nested
    while at < len(text) and text[at] in "KrVRO":  # qualifiers of a nested name
        at += 1
    name = ""
    while at < len(text):
        if text.startswith("St", at):
            at += 2
            continue
        number = _LENGTH.match(text, at)
        if number:
            length = int(number.group())
            at = number.end()
            name = text[at : at + length]
            at += length
            if not nested:
                break
            continue
        if text[at] == "L":  # internal linkage
            at += 1
            continue
        if text[at] == "I" and nested:  # template arguments, perhaps of an enclosing scope
            at = _skip_arguments(text, at)
            continue
        break
    return name


def _skip_arguments(text: str, at: int) -> int:
    """The position after `I…E`, counting nested I, N, X, L, J openings; numbers skip their text."""
    depth = 0
    while at < len(text):
        char = text[at]
        number = _LENGTH.match(text, at)
        if number and depth and text[at - 1] != "L":
            at = number.end() + int(number.group())
            continue
        if char == "L" and depth:  # a literal ends with its own E
            closing = text.find("E", at)
            if text.startswith("L_Z", at) or closing < 0:
                at += 1
                depth += 1
                continue
            at = closing + 1
            continue
        if char in "INXJF":
            depth += 1
        elif char == "E":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at
