"""A window's plan: both files read, every path and secret resolved, one hash over all of it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from lanescope.profiler.adapters.probe import Prompt, read_prompts
from lanescope.profiler.window.diff import differences
from lanescope.profiler.window.redact import Redactor, secrets_in_environment
from lanescope.schemas.documents import toml
from lanescope.schemas.documents.lane import PLACEHOLDER, Lane
from lanescope.schemas.documents.window import Window
from lanescope.schemas.errors import UnusableInput


@dataclass(frozen=True)
class Plan:
    """Everything a window needs to know before it looks at the machine."""

    path: Path
    window: Window
    incumbent: Lane
    candidate: Lane
    incumbent_path: Path
    candidate_path: Path
    prompts: list[Prompt]
    gates: list[Path]
    baseline: Path | None
    output: Path
    private: Path
    #: over the bytes of window, lanes, prompts and gates: a release is for exactly this
    sha256: str

    def secrets(self, lane: Lane) -> dict[str, str]:
        """The values of a lane's secrets. Raises `UnusableInput` where one cannot be had."""
        return {name: _secret(lane, self._file(lane), name) for name in lane.secrets}

    def _file(self, lane: Lane) -> Path:
        return self.incumbent_path if lane is self.incumbent else self.candidate_path

    def key(self, lane: Lane) -> str:
        """The bearer token of a lane; empty where it asks for none."""
        name = lane.ready.api_key
        return _secret(lane, self._file(lane), name) if name else ""

    def redactor(self) -> Redactor:
        """Knows every secret of both lanes."""
        redact = Redactor()
        for lane in (self.incumbent, self.candidate):
            redact.learn(self.secrets(lane).values())
            redact.learn(secrets_in_environment(lane.environment))
        return redact


def load(path: Path) -> Plan:
    """Read a window file and all it names. Raises `UnusableInput` with file, key and remedy."""
    window = toml.read(path, Window)
    base = path.resolve().parent
    incumbent_path = _file(path, "incumbent.lane", base, window.incumbent.lane)
    candidate_path = _file(path, "candidate.lane", base, window.candidate.lane)
    prompts_path = _file(path, "probe.prompts", base, window.probe.prompts)
    gates = [_file(path, f"gates.{n}", base, gate) for n, gate in enumerate(window.gates)]
    incumbent, candidate = (toml.read(p, Lane) for p in (incumbent_path, candidate_path))
    output = base / window.output
    plan = Plan(
        path=path.resolve(),
        window=window,
        incumbent=incumbent,
        candidate=candidate,
        incumbent_path=incumbent_path,
        candidate_path=candidate_path,
        prompts=read_prompts(prompts_path),
        gates=gates,
        baseline=base / window.baseline if window.baseline else None,
        output=output,
        private=base / window.private
        if window.private
        else output.with_name(output.name + ".private"),
        sha256=_hash([path, incumbent_path, candidate_path, prompts_path, *gates]),
    )
    _check_together(plan)
    return plan


def _file(window: Path, key: str, base: Path, name: str) -> Path:
    path = base / name
    if not path.is_file():
        raise UnusableInput(
            f"{window}: {key}: no file {path}", "paths are relative to the window file"
        )
    return path


def _hash(paths: list[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _check_together(plan: Plan) -> None:
    window, incumbent, candidate = plan.window, plan.incumbent, plan.candidate
    if plan.baseline is not None and not (plan.baseline / "manifest.json").is_file():
        raise UnusableInput(
            f"{plan.path}: baseline: {plan.baseline} is no window's folder",
            "name an earlier output",
        )
    if incumbent.launcher != candidate.launcher:
        raise UnusableInput(
            f"{plan.path}: candidate.lane: launcher {candidate.launcher} beside an incumbent under "
            f"{incumbent.launcher}",
            "use one launcher for both lanes",
        )
    if incumbent.launcher == "docker" and not window.incumbent.container:
        raise UnusableInput(f"{plan.path}: incumbent.container: missing", "name its container")
    if incumbent.launcher == "process" and window.incumbent.container:
        raise UnusableInput(
            f"{plan.path}: incumbent.container: given for launcher process", "remove it"
        )
    _check_incumbent_secrets(plan)
    for lane in (incumbent, candidate):
        plan.secrets(lane)
        _check_mounts(plan, lane)
    changed = differences(incumbent, candidate)
    if window.axis is not None and [d.axis for d in changed] != [window.axis]:
        found = ", ".join(d.axis for d in changed) or "nothing"
        raise UnusableInput(
            f"{plan.path}: axis: the lanes differ in {found}, not in {window.axis} alone",
            "make the lanes equal in all but the axis, or leave axis out",
        )


def _check_incumbent_secrets(plan: Plan) -> None:
    lane = plan.incumbent
    used = {lane.ready.api_key} | set(lane.secrets if lane.launcher == "process" else ())
    for name in sorted(n for n in used if n):
        if lane.secrets[name].file is None:
            raise UnusableInput(
                f"{plan.incumbent_path}: secrets.{name}: a variable cannot reach the failsafe: "
                "it has no environment",
                "give the incumbent's secrets by file",
            )


def _check_mounts(plan: Plan, lane: Lane) -> None:
    for number, mount in enumerate(lane.mounts):
        if not Path(mount.source).exists():
            path = plan.incumbent_path if lane is plan.incumbent else plan.candidate_path
            raise UnusableInput(f"{path}: mounts.{number}.source: no {mount.source}", "correct it")


def _secret(lane: Lane, path: Path, name: str) -> str:
    source = lane.secrets[name]
    return secret_value(path, f"secrets.{name}", source.file, source.variable)


def secret_value(path: Path, key: str, file: str | None, variable: str | None) -> str:
    """A secret from its file or variable; a refusal names `path` and `key`, never the value."""
    if variable is not None:
        value = os.environ.get(variable, "")
        if not value:
            raise UnusableInput(f"{path}: {key}.variable: {variable} is not set", "set it")
        return value
    try:
        value = Path(file or "").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "not text"
        raise UnusableInput(
            f"{path}: {key}.file: {file}: {reason}", "name a file that can be read"
        ) from exc
    if not value:
        raise UnusableInput(f"{path}: {key}.file: {file} is empty", "fill it")
    return value


def command_with(lane: Lane, secrets: dict[str, str]) -> list[str]:
    """A lane's command with its secrets in their places."""
    return [PLACEHOLDER.sub(lambda m: secrets[m["name"]], word) for word in lane.command]


def environment_with(lane: Lane, secrets: dict[str, str]) -> dict[str, str]:
    """A lane's whole environment: nothing is inherited."""
    given = {n: v for n, v in secrets.items() if lane.secrets[n].as_variable}
    return {**lane.environment, **given}
