"""Lanes as containers of a Docker engine, through its HTTP interface.

The incumbent is stopped and started by its full id; it is never removed, renamed or updated. The
candidate runs from its pin with pull policy never, and restart policy no.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import procs, source
from lanescope.profiler.adapters.engine_api import Engine, EngineError
from lanescope.profiler.adapters.launcher import LaunchError
from lanescope.profiler.adapters.nsight import Nsight
from lanescope.profiler.window.plan import Plan, command_with, environment_with
from lanescope.profiler.window.redact import (
    Redactor,
    environment_names,
    secrets_in_command,
    secrets_in_environment,
)
from lanescope.schemas.documents.lane import Lane
from lanescope.schemas.errors import LanescopeError, UnusableInput

REPORTS, SCRATCH = "/lanescope/report", "/lanescope/tmp"


def host() -> str:
    """The engine's address: `DOCKER_HOST`, or the usual socket."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def environment_of(record: dict[str, Any]) -> dict[str, str]:
    """The environment in a container's or an image's record."""
    pairs = (item.partition("=") for item in record["Config"].get("Env") or [])
    return {name: value for name, _, value in pairs}


class Containers:
    """Both lanes as containers."""

    def __init__(
        self, plan: Plan, run: str, private: Path, nsight: Nsight, redact: Redactor
    ) -> None:
        self.plan, self.run, self.private, self.nsight = plan, run, private, nsight
        self.redact = redact
        self.engine = Engine(host())
        self.name = f"lanescope-{run}"
        self._incumbent: dict[str, Any] = {}

    @property
    def report_place(self) -> str:
        """Inside the container."""
        return REPORTS

    @property
    def control_file(self) -> Path:
        """The control file on this machine: below one of the mounts that can be written."""
        inside = Path(self.plan.candidate.tracer.control_file)
        for mount in self.plan.candidate.mounts:
            if not mount.read_only and inside.is_relative_to(mount.target):
                return Path(mount.source) / inside.relative_to(mount.target)
        raise UnusableInput(
            f"{self.plan.candidate_path}: tracer.control_file: {inside} is below no writable mount",
            "mount a folder for it",
        )

    # -- preflight ---------------------------------------------------------------------------------

    def check(self) -> dict[str, Any]:
        """The engine answers, pins hold, the name is free, the incumbent runs as recorded."""
        version = self._ask("GET", "/version")
        found = self._find_incumbent()
        pins = {"candidate": self._pin(self.plan.candidate, self.plan.candidate_path)}
        pins["incumbent"] = self._pin(self.plan.incumbent, self.plan.incumbent_path)
        if pins["incumbent"]["id"] != found["Image"]:
            raise UnusableInput(
                f"{self.plan.incumbent_path}: image: the running incumbent has another image: "
                f"{found['Image']}",
                "correct the lane file",
            )
        self._prove_absent(self.name)
        if self.plan.candidate.tracer.mode == "control-file":
            _ = self.control_file
        policy = (found["HostConfig"].get("RestartPolicy") or {}).get("Name") or "no"
        facts = {
            "engine": version.get("Version"),
            "pins": pins,
            "incumbent_id": found["Id"],
            "restart_policy": policy,
        }
        if policy == "always":
            facts["note"] = "restart policy always: an engine restart brings the incumbent back"
        return facts

    def _ask(self, method: str, path: str) -> Any:
        try:
            return self.engine.call(method, path)
        except EngineError as exc:
            raise UnusableInput(str(exc), "start the engine, or name it in DOCKER_HOST") from exc

    def _find_incumbent(self) -> dict[str, Any]:
        name = self.plan.window.incumbent.container or ""
        try:
            found = self.engine.inspect(self._incumbent.get("Id", name))
        except EngineError as exc:
            raise UnusableInput(str(exc), "nothing was touched: see the engine") from exc
        if found is None:
            raise UnusableInput(
                f"{self.plan.path}: incumbent.container: no such container: {name}", "see docker ps"
            )
        if not self._incumbent and not found["State"]["Running"]:
            raise UnusableInput(
                f"{self.plan.path}: incumbent.container: {name} is stopped already",
                "there is nothing to come back to: start it",
            )
        self._learn(found)
        self._incumbent = self._incumbent or found
        return found

    def _learn(self, record: dict[str, Any]) -> None:
        """Secrets that stand in a record must not appear in what is written."""
        self.redact.learn(secrets_in_environment(environment_of(record)))
        words = [record.get("Path", ""), *record.get("Args", [])]
        self.redact.learn(secrets_in_command(words))

    def _pin(self, lane: Lane, path: Path) -> dict[str, Any]:
        """The image that a pin names, present here: pulled never."""
        pin = lane.image or ""
        try:
            image = self.engine.image(pin)
        except EngineError as exc:
            raise UnusableInput(str(exc), "nothing was touched: see the engine") from exc
        if image is None:
            raise UnusableInput(
                f"{path}: image: {pin} is not on this machine", f"docker pull {pin}"
            )
        digests = image.get("RepoDigests") or []
        if pin not in digests and pin != image["Id"]:
            raise UnusableInput(
                f"{path}: image: {pin} is not what the engine has: {', '.join(digests) or 'none'}",
                "pin what will run",
            )
        return {"pin": pin, "id": image["Id"], "digests": digests}

    def _prove_absent(self, name: str) -> None:
        """Only the answer "no such container" counts."""
        try:
            found = self.engine.inspect(name)
        except EngineError as exc:
            raise UnusableInput(f"{name}: absence not proved: {exc}", "see the engine") from exc
        if found is not None:
            raise UnusableInput(f"a container {name} exists", "remove it if it is left over")

    # -- records -----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The incumbent's record without values, and the candidate's source by its own Python."""
        found = self._find_incumbent()
        record = {**found, "Config": {**found["Config"], "Env": environment_names_of(found)}}
        return {"incumbent": self.redact.data(record), "candidate_source": self._source()}

    def _source(self) -> dict[str, Any]:
        """A short-lived container of the candidate's image: no network, no GPU, nothing written."""
        lane = self.plan.candidate
        spec = self._spec(["python3", "-c", source.SNIPPET, *lane.packages], lane.environment)
        spec["HostConfig"].update({"NetworkMode": "none", "Binds": self._mounts(read_only=True)})
        spec["HostConfig"].pop("DeviceRequests", None)
        name = f"{self.name}-source"
        try:
            made = self.engine.call("POST", f"/containers/create?name={name}", spec)
            try:
                self.engine.start(made["Id"])
                ended = self.engine.call("POST", f"/containers/{made['Id']}/wait", timeout=300)
                lines = self.engine.logs(made["Id"], timestamps=False)
            finally:
                self.engine.call("DELETE", f"/containers/{made['Id']}?force=1&v=1")
        except EngineError as exc:
            return {"why": f"no python3 in the image: {self.redact.text(str(exc))[:200]}"}
        return source.parse(int(ended["StatusCode"]), lines.decode(errors="replace"))

    def restore_part(self) -> dict[str, Any]:
        """The incumbent by id, image and arguments."""
        found = self._find_incumbent()
        return {
            "incumbent": {
                "id": found["Id"],
                "image": found["Image"],
                "argv": [found["Path"], *found["Args"]],
                "ports": self.plan.incumbent.ports,
            },
            "docker_host": self.engine.host,
        }

    # -- incumbent ---------------------------------------------------------------------------------

    def stop_incumbent(self) -> dict[str, Any]:
        """Stop it by its id, with its own grace; it stays as it is."""
        found = self._find_incumbent()
        running = bool(found["State"]["Running"])
        try:
            self.engine.stop(found["Id"], self.plan.incumbent.shutdown.grace_s)
        except EngineError as exc:
            raise LanescopeError(str(exc), "see the engine") from exc
        if self.incumbent_running():
            raise LanescopeError("the incumbent does not stop", "see its log")
        return {"id": found["Id"], "was": "running" if running else "stopped already"}

    def incumbent_running(self) -> bool:
        """Whether its container runs, by the engine."""
        return bool(self._find_incumbent()["State"]["Running"])

    # -- candidate ---------------------------------------------------------------------------------

    def server_command(self) -> list[str]:
        """Entrypoint (the lane's, else the image's) and command."""
        lane = self.plan.candidate
        image = self.engine.image(lane.image or "") or {"Config": {}}
        entry = lane.entrypoint or image["Config"].get("Entrypoint") or []
        return [*entry, *command_with(lane, self.plan.secrets(lane))]

    def _mounts(self, read_only: bool = False) -> list[str]:
        return [
            f"{m.source}:{m.target}:{'ro' if m.read_only or read_only else 'rw'}"
            for m in self.plan.candidate.mounts
        ]

    def _spec(self, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
        lane = self.plan.candidate
        box = lane.container
        spec: dict[str, Any] = {
            "Image": lane.image,
            "Entrypoint": command[:1],
            "Cmd": command[1:],
            "Env": [f"{n}={v}" for n, v in environment.items()],
            "Labels": {"lanescope.run": self.run},
            "HostConfig": {
                "NetworkMode": box.network,
                "IpcMode": box.ipc,
                "CapAdd": box.capabilities,
                "SecurityOpt": box.security_options,
                "RestartPolicy": {"Name": "no"},
                "Ulimits": [{"Name": n, "Soft": v, "Hard": v} for n, v in box.ulimits.items()],
            },
        }
        optional = {"ShmSize": box.shm_bytes, "Memory": box.memory_bytes, "Runtime": box.runtime}
        spec["HostConfig"].update({k: v for k, v in optional.items() if v is not None})
        spec.update({k: v for k, v in (("User", box.user), ("WorkingDir", box.workdir)) if v})
        if lane.devices:
            gpus = {"Driver": "nvidia", "DeviceIDs": lane.devices, "Capabilities": [["gpu"]]}
            spec["HostConfig"]["DeviceRequests"] = [gpus]
        if box.network == "bridge":
            spec["ExposedPorts"] = {f"{p}/tcp": {} for p in lane.ports}
            bound = {f"{p}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(p)}] for p in lane.ports}
            spec["HostConfig"]["PortBindings"] = bound
        return spec

    def launch(self, command: list[str]) -> dict[str, Any]:
        """Create and start; the image that runs is checked against the pin once more."""
        lane = self.plan.candidate
        environment = environment_with(lane, self.plan.secrets(lane))
        environment.setdefault("TMPDIR", SCRATCH)
        environment[procs.MARK] = self.run
        if self.nsight.library_path:
            environment["LD_LIBRARY_PATH"] = self.nsight.library_path
        spec = self._spec(command, environment)
        for folder in ("report", "tmp"):
            place = self.private / folder
            place.mkdir(exist_ok=True)
            if lane.container.user:  # its parent keeps everybody else out
                place.chmod(0o777)
        spec["HostConfig"]["Binds"] = [
            *self._mounts(),
            f"{self.nsight.root}:{self.nsight.root}:ro",
            f"{self.private / 'report'}:{REPORTS}:rw",
            f"{self.private / 'tmp'}:{SCRATCH}:rw",
        ]
        expected = self._pin(lane, self.plan.candidate_path)["id"]
        try:
            made = self.engine.call("POST", f"/containers/create?name={self.name}", spec)
            found = self.engine.inspect(made["Id"]) or {}
            if found.get("Image") != expected:
                raise LaunchError(
                    "the container's image is not the pinned one", "see docker images"
                )
            self.engine.start(made["Id"])
        except EngineError as exc:
            raise LaunchError(str(exc), "see the lane file") from exc
        return {
            "container": made["Id"],
            "image": expected,
            "environment": environment_names(environment),
            "image_environment": environment_names_of(self.engine.image(expected) or {}),
        }

    def _candidate(self) -> dict[str, Any] | None:
        found = self.engine.inspect(self.name)
        labels = (found or {}).get("Config", {}).get("Labels") or {}
        return found if labels.get("lanescope.run") == self.run else None

    def candidate_alive(self) -> bool:
        """Whether its container runs; an engine that does not answer counts as not."""
        try:
            found = self._candidate()
        except EngineError:
            return False
        return found is not None and bool(found["State"]["Running"])

    def run_inside(self, words: list[str], seconds: float) -> tuple[int, str]:
        """Run a command in the candidate's container."""
        try:
            return self.engine.run_inside(self.name, words, seconds)
        except EngineError as exc:
            timed_out = "timed out" in str(exc)
            return 124 if timed_out else 125, str(exc)

    def stop_candidate(self) -> dict[str, Any]:
        """Stop its container with the lane's grace; the container stays for its log."""
        try:
            found = self._candidate()
            if found is None:
                return {"was": "not there"}
            self.engine.stop(found["Id"], self.plan.candidate.shutdown.grace_s)
            found = self.engine.inspect(found["Id"]) or found
        except EngineError as exc:
            raise LaunchError(str(exc), "see the engine") from exc
        if found["State"]["Running"]:
            raise LaunchError("the candidate does not stop", "see its log")
        state = found["State"]
        return {"exit_code": state.get("ExitCode"), "out_of_memory": state.get("OOMKilled")}

    def save_log(self, target: Path) -> None:
        """The engine's log of the container, with timestamps, before the container goes."""
        if self._candidate() is not None:
            target.write_bytes(self.engine.logs(self.name))
        self.keep_unfinished()

    def keep_unfinished(self) -> None:
        """The scratch folder is a mount of the private one."""
        for raw in (self.private / "tmp").rglob("*.qdstrm"):
            raw.rename(self.private / "report" / raw.name)

    def remove_candidate(self) -> None:
        """Remove the stopped container of this run, and no other."""
        with contextlib.suppress(EngineError):
            found = self._candidate()
            if found is not None and not found["State"]["Running"]:
                self.engine.call("DELETE", f"/containers/{found['Id']}?v=1")


def environment_names_of(record: dict[str, Any]) -> dict[str, str]:
    """Names and fingerprints of a record's environment."""
    return environment_names(environment_of(record)) if record else {}
