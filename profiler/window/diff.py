"""What two lanes differ in, axis by axis; values that could be secret are compared, never shown."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.profiler.window.redact import HIDDEN, Redactor, fingerprint, is_secret
from lanescope.schemas.documents.lane import Lane, Secret, option_values


@dataclass(frozen=True)
class Difference:
    """One axis, and how each lane stands on it (absent: None)."""

    axis: str
    a: str | None
    b: str | None


#: not axes: how a lane is named, found, waited for, watched
NOT_AXES = {"name", "ready", "shutdown", "tracer", "log", "packages", "json_values", "engine"}


def axes(lane: Lane) -> dict[str, str]:
    """A lane as axis -> value: an option of the command line is an axis of its own."""
    flat: dict[str, str] = {}
    data = lane.model_dump(exclude=NOT_AXES | {"command", "environment", "secrets", "mounts"})
    _flatten("", data, flat)
    flat.update(command_axes(lane.command))
    for name, value in lane.environment.items():
        flat[f"environment.{name}"] = value
    for name, secret in lane.secrets.items():
        flat[f"secrets.{name}"] = str(secret.file or secret.variable)
    for mount in lane.mounts:
        mode = "ro" if mount.read_only else "rw"
        flat[f"mounts.{mount.target}"] = f"{mount.source} ({mode})"
    return flat


def command_axes(command: list[str]) -> dict[str, str]:
    """`--option value` pairs by option; plain words by their place; repeated options in order."""
    flat: dict[str, str] = {}
    words = 0
    for option, value in option_values(command):
        if option:
            name, count = f"command.{option}", 2
            while name in flat:
                name, count = f"command.{option}#{count}", count + 1
            flat[name] = value
        else:
            flat[f"command.{words}"] = value
            words += 1
    return flat


def _flatten(prefix: str, data: Any, into: dict[str, str]) -> None:
    if isinstance(data, dict):
        for key, value in data.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), value, into)
    elif data not in (None, [], ""):
        into[prefix] = " ".join(map(str, data)) if isinstance(data, list) else str(data)


def compare(a: dict[str, str], b: dict[str, str]) -> list[Difference]:
    """The axes on which two lanes stand differently, in the order of the first, then the second."""
    redact = Redactor()
    found = []
    for axis in [*a, *[x for x in b if x not in a]]:
        if a.get(axis) != b.get(axis):
            left, right = (_shown(axis, side.get(axis), redact) for side in (a, b))
            found.append(Difference(axis, left, right))
    return found


def _shown(axis: str, value: str | None, redact: Redactor) -> str | None:
    if value is None:
        return None
    name = axis.rpartition(".")[2]
    if axis.startswith("environment."):
        return HIDDEN + " " + fingerprint(value) if is_secret(name, value) else value
    return HIDDEN if is_secret(name, value) and "{secret:" not in value else redact.text(value)


def differences(a: Lane, b: Lane) -> list[Difference]:
    """What two lane files differ in."""
    return compare(axes(a), axes(b))


#: what an engine fills in where nothing was asked for
DEFAULTS = {
    "container.ipc": "private",
    "container.shm_bytes": "67108864",
    "container.memory_bytes": "0",
    "container.runtime": "runc",
    "container.network": "default",
    "restart": "no",
    "log": "json-file",
}


def as_container(lane: Lane, image: dict[str, Any]) -> dict[str, str]:
    """A lane file in the axes of the container that it would become."""
    left_out = ("secrets.", "command.", "entrypoint")
    flat = {a: v for a, v in axes(lane).items() if not a.startswith(left_out)}
    flat["image"] = image.get("Id") or str(lane.image)
    entry = lane.entrypoint or (image.get("Config") or {}).get("Entrypoint") or []
    flat.update(command_axes([*entry, *lane.command]))
    flat.pop("ports", None)
    if lane.container.network == "bridge":
        flat.update({f"ports.{port}/tcp": str(port) for port in lane.ports})
    for name, secret in lane.secrets.items():
        if secret.as_variable:
            flat[f"environment.{name}"] = _secret_text(secret)
    return _asked_for(flat)


def _secret_text(secret: Secret) -> str:
    """The value, to be compared and never shown; its source where it cannot be read."""
    try:
        if secret.file is not None:
            return Path(secret.file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return f"file {secret.file}"
    return os.environ.get(secret.variable or "", f"variable {secret.variable}")


def _asked_for(flat: dict[str, str]) -> dict[str, str]:
    return {axis: value for axis, value in flat.items() if value and DEFAULTS.get(axis) != value}


def container_axes(found: dict[str, Any], image: dict[str, Any]) -> dict[str, str]:
    """A container's record in the same axes as a lane file; what its image gives is left out."""
    config, host = found["Config"], found["HostConfig"]
    flat: dict[str, str] = {
        "launcher": "docker",
        "image": found["Image"],
        "container.network": host.get("NetworkMode") or "",
        "container.ipc": host.get("IpcMode") or "",
        "container.shm_bytes": str(host.get("ShmSize") or ""),
        "container.memory_bytes": str(host.get("Memory") or ""),
        "container.runtime": host.get("Runtime") or "",
        "container.user": config.get("User") or "",
        "container.workdir": config.get("WorkingDir") or "",
        "container.capabilities": " ".join(host.get("CapAdd") or []),
        "container.security_options": " ".join(host.get("SecurityOpt") or []),
        "restart": (host.get("RestartPolicy") or {}).get("Name") or "no",
        "log": (host.get("LogConfig") or {}).get("Type") or "",
    }
    for limit in host.get("Ulimits") or []:
        flat[f"container.ulimits.{limit['Name']}"] = str(limit["Hard"])
    for request in host.get("DeviceRequests") or []:
        flat["devices"] = " ".join(request.get("DeviceIDs") or [str(request.get("Count"))])
    for port, bound in (host.get("PortBindings") or {}).items():
        flat[f"ports.{port}"] = " ".join(b.get("HostPort", "") for b in bound or [])
    of_image = (image.get("Config") or {}).get("Env") or []
    for item in config.get("Env") or []:
        name, _, value = item.partition("=")
        if item not in of_image:
            flat[f"environment.{name}"] = value
    for mount in found.get("Mounts") or []:
        mode = "rw" if mount.get("RW") else "ro"
        flat[f"mounts.{mount['Destination']}"] = f"{mount.get('Source', '')} ({mode})"
    # what is run is entrypoint and command together, however they are split
    flat.update(command_axes([*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]))
    return _asked_for(flat)
