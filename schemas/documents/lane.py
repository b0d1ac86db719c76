"""A lane file: one way of running an engine, complete enough to be run again exactly.

Secrets stand in it by reference (a file or a variable), never by value; the image stands in it by
digest, never by tag alone. What the engine must be able to read as JSON is read as JSON here,
before anything is touched.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lanescope.schemas.documents.secrecy import looks_secret_name, looks_secret_value, url_password
from lanescope.schemas.documents.toml import mistake

DIGEST = re.compile(r"(?P<repo>[\w.\-:/]+)@(?P<digest>sha256:[0-9a-f]{64})")
IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}")
PLACEHOLDER = re.compile(r"\{secret:(?P<name>\w+)\}")
#: options of vLLM and SGLang whose value is JSON (vLLM's short -O also takes a plain level)
JSON_OPTIONS = frozenset(
    {
        "--compilation-config",
        "--speculative-config",
        "--kv-transfer-config",
        "--hf-overrides",
        "--override-generation-config",
        "--limit-mm-per-prompt",
        "--mm-processor-kwargs",
        "--additional-config",
        "--json-model-override-args",
        "--profiler-config",
    }
)

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


class Strict(BaseModel):
    """A part of a document: unknown keys are refused, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Secret(Strict):
    """Where a secret comes from. It reaches the engine as a variable of the secret's name."""

    file: str | None = None
    variable: str | None = None
    #: give it to the engine as an environment variable (else only where `{secret:NAME}` stands)
    as_variable: bool = True

    @model_validator(mode="after")
    def _one_source(self) -> Secret:
        if (self.file is None) == (self.variable is None):
            raise mistake("needs one source", "give either file = or variable =")
        if self.file is not None and not self.file.startswith("/"):
            raise mistake(f"file {self.file!r} is not an absolute path", "write the whole path")
        return self


class Mount(Strict):
    """A folder or file of the machine inside the container."""

    source: str
    target: str
    read_only: bool = True

    @field_validator("source", "target")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute():
            raise mistake(f"{value!r} is not an absolute path", "write the whole path")
        return value


class Container(Strict):
    """How the container is set up, beside image, command, environment and mounts."""

    network: str = "host"
    ipc: str = "private"
    shm_bytes: Positive | None = None
    memory_bytes: Positive | None = None
    runtime: str | None = None
    user: str | None = None
    workdir: str | None = None
    ulimits: dict[str, int] = {}
    capabilities: list[str] = []
    security_options: list[str] = []


class Ready(Strict):
    """What "serving" means: health, the served model, one authenticated completion."""

    url: str
    model: str
    health: str = "/health"
    models: str = "/v1/models"
    completions: Literal["/v1/completions", "/v1/chat/completions"] = "/v1/completions"
    #: name of the secret that is the bearer token
    api_key: str | None = None
    #: a big model loads for tens of minutes: 40 by default
    budget_s: Seconds = 2400.0

    @field_validator("url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        if url_password(value):
            raise mistake("holds a password", "give the token as a secret and name it in api_key")
        if not re.fullmatch(r"https?://[\w.\-\[\]:]+(/[^?#\s]*)?", value):
            raise mistake(f"{value!r} is no http address", "write it like http://127.0.0.1:8000")
        return value.rstrip("/")

    @field_validator("health", "models")
    @classmethod
    def _path(cls, value: str) -> str:
        if not value.startswith("/"):
            raise mistake(f"{value!r} is no path", "start it with /")
        return value


class Shutdown(Strict):
    """How the engine is asked to end."""

    grace_s: Seconds = 120.0


class Tracer(Strict):
    """How Nsight Systems runs around the engine."""

    #: folder of an Nsight Systems installation; None: found on this machine
    nsys: str | None = None
    #: session: launch, start, stop. capture-range: the server's profile endpoints open and close
    #: it. control-file: a hook in the engine polls a file and acknowledges.
    mode: Literal["session", "capture-range", "control-file"] = "session"
    trace: list[str] = ["cuda", "nvtx"]
    graph: Literal["node", "graph"] = "node"
    #: capture-range: what opens the range, `cudaProfilerApi` or `nvtx` with `range_name`
    range: Literal["cudaProfilerApi", "nvtx"] = "cudaProfilerApi"
    range_name: str = ""
    start_endpoint: str = "/start_profile"
    stop_endpoint: str = "/stop_profile"
    #: control-file: where the engine's hook looks, as the engine sees the path
    control_file: str = ""
    options: list[str] = []

    @field_validator("trace")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        known = {"cuda", "cuda-sw", "cuda-hw", "nvtx", "osrt", "cublas", "cudnn", "mpi", "nccl"}
        for item in value:
            if item not in known:
                raise mistake(f"unknown tracer {item!r}", f"the tracers are {', '.join(known)}")
        if "nvtx" not in value:
            raise mistake("lacks nvtx", "add it: verification steps are told by their ranges")
        return value

    @field_validator("options")
    @classmethod
    def _allowed(cls, value: list[str]) -> list[str]:
        for option in value:
            if re.match(r"(--delay|--duration|-y|-d)(=|$)", option):
                raise mistake(
                    f"{option!r} kills or misses servers",
                    "leave it out: the window starts and stops",
                )
        return value

    @model_validator(mode="after")
    def _complete(self) -> Tracer:
        if self.mode == "control-file" and not self.control_file:
            raise mistake("control-file mode without control_file", "name the file that is polled")
        if self.range == "nvtx" and not self.range_name:
            raise mistake("an nvtx range without range_name", "name the range, like NAME@DOMAIN")
        return self


class Engine(Strict):
    """Facts that the trace cannot tell. Each may be left out; what needs it then abstains."""

    k: Annotated[int, Field(ge=0)] | None = None
    layers: Positive | None = None
    routed_rows: Positive | None = None
    slots: Positive | None = None
    row_bytes: dict[str, Positive] = {}


class Log(Strict):
    """Lines of the engine's log that are kept apart (regular expressions)."""

    patterns: list[str] = []

    @field_validator("patterns")
    @classmethod
    def _compile(cls, value: list[str]) -> list[str]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as exc:
                raise mistake(f"{pattern!r} is no pattern: {exc}", "correct it") from exc
        return value


class Lane(Strict):
    """One way of running an engine."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,62}$")]
    launcher: Literal["docker", "process"]
    image: str | None = None
    entrypoint: list[str] = []
    command: Annotated[list[str], Field(min_length=1)]
    #: further arguments and variables whose value the engine reads as JSON
    json_values: list[str] = []
    environment: dict[str, str] = {}
    secrets: dict[str, Secret] = {}
    mounts: list[Mount] = []
    devices: list[str] = []
    ports: list[Annotated[int, Field(gt=0, lt=65536)]] = []
    container: Container = Container()
    ready: Ready
    shutdown: Shutdown = Shutdown()
    tracer: Tracer = Tracer()
    engine: Engine = Engine()
    log: Log = Log()
    #: packages whose files are hashed before the window
    packages: list[str] = []

    @field_validator("image")
    @classmethod
    def _pinned(cls, value: str | None) -> str | None:
        if value is None or DIGEST.fullmatch(value) or IMAGE_ID.fullmatch(value):
            return value
        raise mistake(
            f"{value!r} is not pinned",
            "write repo@sha256:DIGEST, or the image id sha256:ID of an image built here; "
            "a tag may move",
        )

    @field_validator("devices")
    @classmethod
    def _uuids(cls, value: list[str]) -> list[str]:
        for device in value:
            if not re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/\-]+", device):
                raise mistake(f"{device!r} is no GPU UUID", "take it from nvidia-smi -L")
        return value

    @field_validator("environment")
    @classmethod
    def _no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise mistake(f"{name!r} is no variable name", "correct it")
            if text and (looks_secret_name(name) or looks_secret_value(text) or url_password(text)):
                raise mistake(
                    f"{name} looks like a secret given by value",
                    f"move it to [secrets]: {name} = {{ file = ... }} or {{ variable = ... }}",
                )
        return value

    @model_validator(mode="after")
    def _whole(self) -> Lane:
        if self.launcher == "docker" and self.image is None:
            raise mistake("launcher docker without image", "add image = repo@sha256:DIGEST")
        if self.launcher == "process" and self.image is not None:
            raise mistake("launcher process with an image", "remove image, or use docker")
        self._check_arguments()
        self._check_json()
        used = set(PLACEHOLDER.findall(" ".join(self.command))) | {self.ready.api_key or ""}
        for name in used - {""} - set(self.secrets):
            raise mistake(f"secret {name!r} is used and not defined", "add it under [secrets]")
        return self

    def _check_arguments(self) -> None:
        for option, value in option_values(self.command):
            shown = option.lstrip("-") or "an argument"
            secret = looks_secret_name(option) and not PLACEHOLDER.search(value)
            if value and (secret or looks_secret_value(value) or url_password(value)):
                raise mistake(
                    f"command: {shown} is followed by a secret by value",
                    "write {secret:NAME} there and define NAME under [secrets]",
                )

    def _check_json(self) -> None:
        wanted = JSON_OPTIONS | set(self.json_values)
        found = set()
        for option, value in option_values(self.command):
            found.add(option)
            guessed = value.startswith("{") and not PLACEHOLDER.match(value)
            if option in wanted or guessed:
                parse_json(f"command: {option or 'argument'}", PLACEHOLDER.sub("x", value))
        for name, value in self.environment.items():
            found.add(name)
            if name in wanted or value.startswith("{"):
                parse_json(f"environment.{name}", value)
        for name in set(self.json_values) - found:
            raise mistake(
                f"json_values: {name!r} is neither an option of the command nor a variable",
                "remove it or add what it names",
            )


def parse_json(where: str, value: str) -> Any:
    """`value` as JSON; the value itself is not repeated in the refusal."""
    try:
        return json.loads(value)
    except json.JSONDecodeError as exc:
        raise mistake(
            f"{where}: not JSON: {exc.msg} at character {exc.pos + 1}",
            "quote keys and strings; in TOML write it in single quotes: '{\"mode\": 3}'",
        ) from exc


def option_values(command: list[str]) -> list[tuple[str, str]]:
    """(option, value) pairs of a command line; a bare flag has no value, a word no option."""
    pairs: list[tuple[str, str]] = []
    rest = list(command)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            pairs.append(("", word))
        elif "=" in word:
            option, _, value = word.partition("=")
            pairs.append((option, value))
        elif rest and not rest[0].startswith("-"):
            pairs.append((word, rest.pop(0)))
        else:
            pairs.append((word, ""))
    return pairs
