"""How a name from a trace is shown: as text, in every view.

Kernel, range, lane and file names are other people's bytes. They may hold markup, quotes, control
characters, direction overrides, or be very long. Markup is escaped where the view is made (jinja2,
`for_plot`, `for_markdown`); this file makes the rest visible and finite.
"""

from __future__ import annotations

import html
import unicodedata

#: Longest name shown whole; a demangled template can be far longer and says little more.
MOST = 300
MOST_IN_PLOT = 90


def visible(text: str) -> str:
    """`text` with what cannot be seen written out: NUL as ␀, a right-to-left override as <U+202E>.

    Line breaks and tabs become their control pictures too: a name is one line everywhere.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " else _picture(c) for c in text)


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if unicodedata.category(char) == "Zs":
        return " "
    return f"<U+{code:04X}>"


def shown(text: str, most: int = MOST) -> str:
    """`visible(text)`, cut after `most` characters with a word on how long it was."""
    if len(text) <= most:
        return visible(text)
    return f"{visible(text[:most])}… ({len(text):,} characters)"


def for_plot(text: str) -> str:
    """For text inside a plotly figure, which reads markup of its own, and TeX between dollars."""
    short = visible(text) if len(text) <= MOST_IN_PLOT else f"{visible(text[:MOST_IN_PLOT])}…"
    return html.escape(short, quote=True).replace("$", "&#36;")


def for_markdown(text: str) -> str:
    """For a cell of a Markdown table: no character of it is markup."""
    out = html.escape(shown(text), quote=False)
    for char in "\\`*_[]|~#":
        out = out.replace(char, f"\\{char}")
    return out


def for_spreadsheet(text: str) -> str:
    """For a cell of a CSV file: a spreadsheet must not take a name for a formula."""
    safe = visible(text)
    return f"'{safe}" if safe[:1] in ("=", "+", "-", "@") else safe
