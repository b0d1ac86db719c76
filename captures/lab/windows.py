"""Live windows over lab lanes on one machine: `python -m lanescope.captures.lab.windows FOLDER`.

Writes lane and window files, starts the incumbent as somebody's server would be, runs one
`lanescope capture` a variant, breaks some on purpose if told to, and notes after each whether the
incumbent serves. What happened goes to `FOLDER/windows.json`.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lanescope.captures import profiles
from lanescope.captures.lab.config import configure

#: prompts: short, middling, long enough for two chunks
PROMPTS = (
    "Name three kinds of pasta.",
    "Explain why the sky is blue, in simple words that a child could follow.",
    "Write a plan for a week in a small town: every day one walk, one meal, one thing to see. "
    "Say what to do when it rains, what it costs, and what to leave out when time is short.",
    "Hi.",
)
#: variant -> options of the command that differ from the incumbent's
VARIANTS: dict[str, dict[str, str]] = {
    "same": {},
    "slots20": {"--slots": "20"},
    "slots44": {"--slots": "44"},
    "k0": {"--k": "0"},
    "k2": {"--k": "2"},
    # what eight times the context leaves of the memory that slots44 takes
    "context": {"--context": "16384", "--slots": "28"},
    "noise": {"--noise-mib": "48"},
    "skew": {"--skew": "1.0"},
    "streams": {"--streams": "2"},
    "memory": {"--context": "4000000"},  # more key-value cache than any GPU has
}
#: what can be broken in the middle of a window
FAULTS = ("runner", "nsys")
MODEL = "lab"


@dataclass(frozen=True)
class Ran:
    """One window: the exit code of `lanescope capture`, its seconds, and whether the incumbent
    serves after it."""

    variant: str
    code: int
    seconds: float
    serving: bool
    said: str


@dataclass(frozen=True)
class Fault:
    """A window that was broken: what was killed, and how the incumbent came back."""

    fault: str
    killed: int
    code: int | None
    seconds_without_incumbent: float
    serving: bool
    resume_code: int
    said: str


def _tracers() -> list[int]:
    """The nsys processes of windows."""
    return [pid for pid, name in _marked() if name.startswith("nsys")]


def _marked() -> list[tuple[int, str]]:
    """Processes of windows' candidates, with their names: they carry the runner's mark."""
    found: list[tuple[int, str]] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "comm").read_text()
                marked = b"LANESCOPE_LANE_RUN=" in (entry / "environ").read_bytes()
            except OSError:  # it has ended, or is somebody else's
                continue
            if marked:
                found.append((int(entry.name), name.strip()))
    return found


class Bench:
    """The files and processes of a set of windows."""

    def __init__(self, folder: Path, options: Mapping[str, str], device: str, port: int) -> None:
        self.folder, self.options, self.device, self.port = folder, options, device, port
        self.key = "lab-" + os.urandom(12).hex()
        folder.mkdir(parents=True, exist_ok=True)
        self.key_file = folder / "key"
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(self.key)
        rows = [json.dumps({"id": f"p{i}", "prompt": p}) for i, p in enumerate(PROMPTS)]
        (folder / "prompts.jsonl").write_text("\n".join(rows) + "\n")

    def command(self, changes: Mapping[str, str]) -> list[str]:
        """The command of a lane."""
        options = {
            "--model": MODEL,
            "--device": self.device,
            "--port": str(self.port),
            "--truth": str(self.folder / "truth"),
            **self.options,
            **changes,
        }
        words = [word for pair in options.items() for word in pair]
        return [sys.executable, "-m", "lanescope", "lab", "serve", *words]

    def environment(self) -> dict[str, str]:
        """What a lane gets: where its Python finds things, and nothing else."""
        kept = ("PATH", "PYTHONPATH", "TRITON_CACHE_DIR")
        found = {name: os.environ[name] for name in kept if name in os.environ}
        return {**found, "HOME": "/tmp", "PYTHONUNBUFFERED": "1"}

    def lane(self, name: str, changes: Mapping[str, str]) -> Path:
        """Write a lane file."""
        trace = ["nvtx"] if self.device == "cpu" else ["cuda", "nvtx"]
        path = self.folder / f"{name}.lane.toml"
        data = {
            "name": name,
            "launcher": "process",
            "command": self.command(changes),
            "ports": [self.port],
            "packages": ["lanescope"],
            "environment": self.environment(),
            "secrets": {"LANESCOPE_LAB_TOKEN": {"file": str(self.key_file)}},
            "ready": {
                "url": f"http://127.0.0.1:{self.port}",
                "model": MODEL,
                "api_key": "LANESCOPE_LAB_TOKEN",
                "budget_s": 120,
            },
            "shutdown": {"grace_s": 30},
            "tracer": {"trace": trace},
            "log": {"patterns": ["SLOT_CACHE STATS"]},
        }
        path.write_text(_toml(data))
        return path

    def profile(self) -> None:
        """The slot-cache profile, with the bytes of this lane's rows."""
        sizes = configure(self.options["--preset"])
        known = (importlib.resources.files(profiles) / "slot-cache.toml").read_text()
        pairs = ", ".join(f"{t} = {n}" for t, n in sizes.row_bytes.items())
        text = f"{known.rstrip()}\nrow_bytes = {{ {pairs} }}\n"
        (self.folder / "lab.profile.toml").write_text(text)

    def window(self, variant: str, tokens: int, concurrency: Sequence[int], name: str = "") -> Path:
        """Write a window file, and the candidate's lane."""
        changes = VARIANTS[variant]
        self.lane(variant, changes)
        path = self.folder / f"{variant}.window.toml"
        data: dict[str, Any] = {
            "name": name or variant,
            "output": "out",
            "incumbent": {"lane": "incumbent.lane.toml"},
            "candidate": {"lane": f"{variant}.lane.toml"},
            "probe": {
                "prompts": "prompts.jsonl",
                "max_tokens": tokens,
                "warmup": 2,
                "concurrency": list(concurrency),
            },
            "durations": {"settle_s": 1.0, "stable_s": 0.5, "stop_s": 60},
            "failsafe": {"deadline_s": 300, "proof_s": 1, "lease_s": 12},
            "checks": {"free_gib": 0.5},
            "profile": str(self.folder / "lab.profile.toml"),
        }
        if len(changes) == 1:
            data["axis"] = f"command.{next(iter(changes))}"
        path.write_text(_toml(data))
        return path

    def start_incumbent(self) -> float:
        """Start it free of this process; seconds until it serves."""
        self.lane("incumbent", {})
        self.profile()
        began = time.monotonic()
        log = (self.folder / "incumbent.log").open("ab")
        process = subprocess.Popen(
            self.command({}),
            env={**self.environment(), "LANESCOPE_LAB_TOKEN": self.key},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        while not self.serving():
            if process.poll() is not None or time.monotonic() - began > 120:
                raise SystemExit(f"the incumbent does not serve: see {self.folder}/incumbent.log")
            time.sleep(0.1)
        return time.monotonic() - began

    def serving(self) -> bool:
        """Whether an authenticated completion comes back."""
        body = json.dumps({"model": MODEL, "prompt": "Hi.", "max_tokens": 1}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", body)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return "choices" in json.load(answer)
        except (OSError, ValueError):
            return False

    def _states(self) -> dict[str, float]:
        """Receipts of the newest window: state -> when it was written."""
        runs = sorted((self.folder / "out").glob("*"), key=lambda p: p.stat().st_mtime)
        found = sorted(runs[-1].glob("receipts/*.json")) if runs else []
        return {p.stem.split("-", 1)[1]: p.stat().st_mtime for p in found}

    def break_one(self, fault: str, variant: str, tokens: int) -> Fault:
        """A window in whose profiled probe the runner or nsys is killed."""
        path = self.window(variant, tokens, (1,), name=f"fault-{fault}")
        began = time.time()
        words = [sys.executable, "-m", "lanescope", "capture", str(path), "--release"]
        runner = subprocess.Popen(
            words, env=self._places(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        while self._states().get("control_probe", 0) < began and runner.poll() is None:
            time.sleep(0.02)
        time.sleep(1.6)  # nsys has begun to collect, requests are under way
        killed = [runner.pid] if fault == "runner" else _tracers()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        at = time.monotonic()
        said = runner.communicate()[0]
        # the candidate answers on the same port: only once it has gone is it the incumbent
        while (_marked() or not self.serving()) and time.monotonic() - at < 120:
            time.sleep(0.2)
        back = time.monotonic() - at
        resumed = self.call("capture", "resume")
        return Fault(
            fault=fault,
            killed=len(killed),
            code=runner.returncode,
            seconds_without_incumbent=round(back, 2),
            serving=self.serving(),
            resume_code=resumed.returncode,
            said=(said + "--- resume\n" + resumed.stdout + resumed.stderr)[-3000:],
        )

    def _places(self) -> dict[str, str]:
        own = {"STATE": str(self.folder / "state"), "CATALOGUE": str(self.folder / "windows.db")}
        return {**os.environ, **{f"LANESCOPE_{name}": value for name, value in own.items()}}

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, as a person would call it."""
        return subprocess.run(
            [sys.executable, "-m", "lanescope", *words],
            env=self._places(),
            capture_output=True,
            text=True,
            check=False,
        )

    def write(self, started: float, ran: Sequence[Ran], broken: Sequence[Fault]) -> None:
        """What has happened so far."""
        done = {"windows": [asdict(r) for r in ran], "faults": [asdict(f) for f in broken]}
        text = json.dumps({"incumbent_ready_s": started, **done}, indent=1)
        (self.folder / "windows.json").write_text(text)

    def run(self, variant: str, tokens: int, concurrency: Sequence[int] = (1,)) -> Ran:
        """One window, and whether the incumbent serves after it."""
        path = self.window(variant, tokens, concurrency)
        began = time.monotonic()
        done = self.call("capture", str(path), "--release")
        seconds = time.monotonic() - began
        said = (done.stdout + done.stderr)[-2000:]
        return Ran(variant, done.returncode, round(seconds, 2), self.serving(), said)


def _toml(data: Mapping[str, Any]) -> str:
    """A TOML document; JSON spells these values alike."""
    plain = [f"{k} = {json.dumps(v)}" for k, v in data.items() if not isinstance(v, Mapping)]
    for key, table in data.items():
        if isinstance(table, Mapping):
            plain.append(f"[{key}]")
            for name, value in table.items():
                text = json.dumps(value)
                if isinstance(value, Mapping):
                    pairs = ", ".join(f"{n} = {json.dumps(v)}" for n, v in value.items())
                    text = f"{{ {pairs} }}"
                plain.append(f'"{name}" = {text}')
    return "\n".join(plain) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run windows; 0 where every one of them left the incumbent serving."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--variants", default="same", help=f"of {','.join(VARIANTS)}")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--port", type=int, default=8177)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--concurrency", default="1")
    parser.add_argument("--faults", default="", help=f"of {','.join(FAULTS)}, after the windows")
    parser.add_argument("--set", action="append", default=[], help="another option, --k=2 say")
    given = parser.parse_args(argv)
    options = {"--preset": given.preset, **dict(f"--{s}".split("=", 1) for s in given.set)}
    bench = Bench(given.folder.resolve(), options, given.device, given.port)
    ran: list[Ran] = []
    started = bench.start_incumbent()
    print(f"incumbent serves after {started:.1f} s", flush=True)
    concurrency = [int(c) for c in given.concurrency.split(",")]
    for variant in given.variants.split(","):
        ran.append(bench.run(variant, given.tokens, concurrency))
        print(f"{ran[-1].variant}: exit {ran[-1].code}, {ran[-1].seconds} s", flush=True)
        bench.write(started, ran, [])
    broken: list[Fault] = []
    for fault in filter(None, given.faults.split(",")):
        broken.append(bench.break_one(fault, "same", given.tokens))
        print(f"{fault} killed: incumbent back after {broken[-1].seconds_without_incumbent} s")
    bench.write(started, ran, broken)
    return 0 if all([*(r.serving for r in ran), *(f.serving for f in broken)]) else 1


if __name__ == "__main__":
    sys.exit(main())
