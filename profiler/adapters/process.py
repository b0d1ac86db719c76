"""Lanes as processes of this machine, for machines without containers.

The candidate carries a mark in its environment, which all its children inherit: nothing of it can
hide in another session. Its output passes a small pump that puts a time before each line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs, source
from lanescope.profiler.adapters.commands import run as run_command
from lanescope.profiler.adapters.launcher import LaunchError
from lanescope.profiler.adapters.nsight import Nsight, remove_scratch
from lanescope.profiler.window.plan import Plan, command_with, environment_with
from lanescope.profiler.window.redact import Redactor, environment_names, fingerprint
from lanescope.schemas.documents.lane import PLACEHOLDER
from lanescope.schemas.errors import LanescopeError, UnusableInput


class Processes:
    """Both lanes as processes."""

    def __init__(
        self, plan: Plan, run: str, private: Path, nsight: Nsight, redact: Redactor
    ) -> None:
        self.plan, self.run, self.private, self.nsight = plan, run, private, nsight
        self.redact = redact
        # nsys keeps sockets and unfinished reports there; sockets need a short path
        self.scratch = Path("/var/tmp") / f"ls-{fingerprint(run)[-10:]}"
        self._child: subprocess.Popen[bytes] | None = None
        self._incumbent = 0

    @property
    def report_place(self) -> str:
        """The private folder itself."""
        return str(self.private / "report")

    def _incumbent_command(self) -> list[str]:
        lane = self.plan.incumbent
        return command_with(lane, self.plan.secrets(lane))

    def _ports(self) -> list[int]:
        return self.plan.incumbent.ports

    def _find_incumbent(self) -> int:
        for port in self._ports():
            found = procs.owner_of_port(port, self._incumbent_command())
            if found:
                return found
        return 0

    def check(self) -> dict[str, Any]:
        """The incumbent's process is found by its port and its command line."""
        if not self._ports():
            raise UnusableInput(
                f"{self.plan.incumbent_path}: ports: missing", "a process is found by its port"
            )
        program = Path(self.plan.candidate.command[0])
        if not program.is_absolute() or not os.access(program, os.X_OK):
            raise UnusableInput(
                f"{self.plan.candidate_path}: command: {program} is no program by its whole path",
                "nothing is inherited, PATH neither: write the whole path",
            )
        self._incumbent = self._find_incumbent()
        if not self._incumbent:
            raise UnusableInput(
                f"{self.plan.incumbent_path}: command: no process with it listens on port "
                f"{', '.join(map(str, self._ports()))}",
                "start the incumbent, or correct command and ports",
            )
        free = set(self.plan.candidate.ports) - set(self._ports())
        for port in sorted(free):
            if procs.port_taken(port):
                raise UnusableInput(
                    f"{self.plan.candidate_path}: ports: {port} is taken", "free it, or use another"
                )
        return {"incumbent_pid": self._incumbent, "started_ticks": procs.started(self._incumbent)}

    def snapshot(self) -> dict[str, Any]:
        """The candidate's packages by its own interpreter."""
        lane = self.plan.candidate
        python = source.interpreter_of(lane.command)
        found: dict[str, Any] = {"why": "the command starts no Python interpreter"}
        if python:
            environment = {"PATH": "/usr/bin:/bin", **lane.environment}
            found = source.collect([python], lane.packages, environment)
        record = {
            "command": procs.argv(self._incumbent or self._find_incumbent()),
            "environment": environment_names(self.plan.incumbent.environment),
        }
        return {"candidate_source": found, "incumbent": self.redact.data(record)}

    def restore_part(self) -> dict[str, Any]:
        """The incumbent by its command, secrets by their files."""
        lane = self.plan.incumbent
        files = {name: str(secret.file) for name, secret in lane.secrets.items()}
        used = set(PLACEHOLDER.findall(" ".join(lane.command)))
        return {
            "incumbent": {
                "command": lane.command,
                "environment": lane.environment,
                "secrets": {n: f for n, f in files.items() if lane.secrets[n].as_variable},
                "in_command": {n: f for n, f in files.items() if n in used},
                "workdir": lane.container.workdir,
                "ports": lane.ports,
                "log": str(self.private / "incumbent.log"),
            },
            "docker_host": "",
        }

    def stop_incumbent(self) -> dict[str, Any]:
        """SIGTERM to its process, SIGKILL to it and all below after the grace."""
        pid = self._find_incumbent()
        if not pid:
            return {"was": "stopped already"}
        members = procs.descendants(pid)
        if not procs.end(members, self.plan.incumbent.shutdown.grace_s, first=[pid]):
            raise LanescopeError("the incumbent does not end", "see its log")
        if any(procs.port_taken(port) for port in self._ports()):
            raise LanescopeError("the incumbent's port is still held after its end", "see ss -ltnp")
        return {"was": "running", "pid": pid, "processes": len(members)}

    def incumbent_running(self) -> bool:
        """Whether a process with the incumbent's command holds its port."""
        owner = self._find_incumbent()
        return bool(owner) and owner not in procs.marked(self.run)

    def server_command(self) -> list[str]:
        """The lane's command."""
        lane = self.plan.candidate
        return [*lane.entrypoint, *command_with(lane, self.plan.secrets(lane))]

    def launch(self, command: list[str]) -> dict[str, Any]:
        """Start the candidate in a session of its own."""
        lane = self.plan.candidate
        environment = environment_with(lane, self.plan.secrets(lane))
        environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        environment.setdefault("TMPDIR", str(self.scratch))
        environment[procs.MARK] = self.run
        (self.private / "report").mkdir(exist_ok=True)
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        if self.nsight.library_path:
            environment["LD_LIBRARY_PATH"] = self.nsight.library_path
        pump = procs.pump(sys.executable, str(self.private / "engine.log"), {procs.MARK: self.run})
        try:
            self._child = subprocess.Popen(
                command,
                env=environment,
                cwd=lane.container.workdir or "/",
                stdin=subprocess.DEVNULL,
                stdout=pump.stdin,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as exc:
            raise LaunchError(f"{command[0]}: {exc.strerror}", "correct the command") from exc
        finally:
            if pump.stdin:
                pump.stdin.close()
        return {"pid": self._child.pid, "environment": environment_names(environment)}

    @property
    def control_file(self) -> Path:
        """Where the engine's hook polls: the same path on both sides."""
        return Path(self.plan.candidate.tracer.control_file)

    def candidate_alive(self) -> bool:
        """Whether the launched process still runs."""
        return self._child is not None and self._child.poll() is None

    def run_inside(self, words: list[str], seconds: float) -> tuple[int, str]:
        """Run a command beside the candidate, with a built environment and the candidate's mark."""
        environment = self.nsight.environment() | {
            "TMPDIR": str(self.scratch),
            procs.MARK: self.run,
        }
        return run_command(words, environment, seconds)

    def stop_candidate(self) -> dict[str, Any]:
        """The engine first, so that the tracer ends by itself; then whatever is left."""
        members = procs.marked(self.run)
        engine = [p for p in members if not _of_tracer(p)]
        by_itself = procs.end(engine, self.plan.candidate.shutdown.grace_s) if engine else True
        if self._child is not None:
            try:
                self._child.wait(10)
            except subprocess.TimeoutExpired:
                by_itself = False
        left = procs.marked(self.run)
        procs.end(left, 5.0)
        remaining = procs.marked(self.run)
        if remaining:
            raise LaunchError(f"{len(remaining)} process(es) of the candidate do not end", "see ps")
        code = self._child.returncode if self._child else None
        return {"processes": len(members), "ended_in_time": by_itself, "exit_code": code}

    def save_log(self, target: Path) -> None:
        """The pump wrote it into the private folder already."""
        if not target.exists():
            target.write_bytes(b"")
        self.keep_unfinished()

    def keep_unfinished(self) -> None:
        """The scratch folder has a short path, since nsys keeps sockets there."""
        for raw in self.scratch.rglob("*.qdstrm"):
            shutil.move(raw, self.private / "report" / raw.name)

    def remove_candidate(self) -> None:
        """The tracer's scratch folder is all that processes leave."""
        remove_scratch(self.scratch)


def _of_tracer(pid: int) -> bool:
    line = procs.argv(pid)
    return Path(line[0]).name.startswith("nsys") or (
        len(line) > 3 and line[3:5] == ["-c", procs.PUMP]
    )
