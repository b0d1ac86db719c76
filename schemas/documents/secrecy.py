"""What a secret looks like: the one place that decides it, for lane files and for redaction."""

from __future__ import annotations

import re

_NAME = re.compile(
    r"((^|[_\-])(token|key|apikey|secret|pwd|credential|auth|authorization|bearer|cookie|jwt|pat|dsn)"
    r"|password|passwd|passphrase)$",
    re.IGNORECASE,
)
_PLURAL = re.compile(
    r"(^|[_\-])((api|access|auth|hf|bearer|secret|refresh|private)[_\-]?(token|key)|secret|password|"
    r"credential|cookie)s$",
    re.IGNORECASE,
)
#: names that end like a secret and hold none
_PLAIN = re.compile(
    r"(sort|primary|cache|tokenizer|max|num|min|stop|eos|bos|pad|public|partition|batched|routing|"
    r"per)[_\-](\w+[_\-])*(key|token)$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"^(hf_[A-Za-z0-9]{8,}|sk-[\w\-]{8,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abpr]-[\w\-]{10,}|"
    r"AKIA[0-9A-Z]{16}|glpat-[\w\-]{10,}|nvapi-[\w\-]{10,}|eyJ[\w\-]+\.[\w\-]+\.[\w\-]*|"
    r"[Bb]earer\s+\S+|-----BEGIN [A-Z ]*PRIVATE KEY.*)",
    re.DOTALL,
)
URL_PASSWORD = re.compile(r"(?P<head>[a-zA-Z][\w+.\-]*://[^\s/:@\"']*:)(?P<secret>[^\s/@\"']+)@")
BEARER = re.compile(r"(?P<head>\bbearer\s+)(?P<secret>[\w\-.~+/=]{6,})", re.IGNORECASE)


def looks_secret_name(name: str) -> bool:
    """Whether a variable or option of this name holds a secret (`HF_TOKEN`, `--api-key`)."""
    bare = name.lstrip("-")
    if bare in ("PWD", "OLDPWD"):
        return False
    if _PLURAL.search(bare):
        return True
    return bool(_NAME.search(bare)) and not _PLAIN.search(bare)


def looks_secret_value(value: str) -> bool:
    """Whether a value gives itself away (a token of a known form, a bearer header)."""
    return bool(_VALUE.search(value))


def url_password(value: str) -> str | None:
    """The password inside an address, if there is one."""
    match = URL_PASSWORD.search(value)
    return match["secret"] if match else None
