"""Keeping the failsafe armed while a window runs: proof, heartbeat, extension, disarming."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import systemd
from lanescope.profiler.adapters.failsafe import Armed, Failsafe, FailsafeError
from lanescope.profiler.adapters.watchdog import Watchdog
from lanescope.schemas.documents.window import Failsafe as Settings

CLOCK = time.CLOCK_BOOTTIME
RESTORE = ["restore", "failsafe"]


def choose(settings: Settings, command: list[str], folder: Path, run: str) -> Failsafe:
    """A systemd timer where systemd is PID 1, else the watchdog; or the kind that is asked for."""
    if settings.kind == "systemd" and not systemd.available():
        raise FailsafeError(
            "failsafe.kind = systemd, but system-scope timers cannot be made here",
            "run as root under systemd, or use watchdog",
        )
    if settings.kind != "watchdog" and systemd.available():
        return systemd.Systemd(command, folder, run)
    return Watchdog(command, folder, settings.lease_s)


class Guard:
    """The armed failsafe of one window."""

    def __init__(self, failsafe: Failsafe, folder: Path, settings: Settings) -> None:
        self.failsafe, self.folder, self.settings = failsafe, folder, settings
        self.armed: list[Armed] = []
        self._beat = threading.Event()
        self._heart = threading.Thread(target=self._beating, daemon=True)

    # -- life --------------------------------------------------------------------------------------

    def _beating(self) -> None:
        """Touching a file needs no space: a full disk does not look like a dead runner."""
        while not self._beat.wait(min(1.0, self.settings.lease_s / 4)):
            with contextlib.suppress(OSError):
                os.utime(self.folder / "lease")

    # -- proof -------------------------------------------------------------------------------------

    def prove(self) -> dict[str, Any]:
        """Arm a dummy that only looks, and hold what it saw against what must be so."""
        nonce, proof = secrets.token_hex(16), self.folder / "proof.json"
        proof.unlink(missing_ok=True)
        armed = self.failsafe.arm(self.settings.proof_s, ["verify", nonce, str(proof)])
        seen = self._await_proof(proof, armed)
        late = seen["boottime_s"] - armed.deadline_boottime_s
        if seen["nonce"] != nonce:
            raise FailsafeError("the failsafe's proof carries another nonce", "try again")
        if late < -0.5 or late > 15:
            raise FailsafeError(f"the failsafe ran {late:.1f} s from its time", "see the journal")
        if seen["uid"] != os.geteuid() or seen["session"] == os.getsid(0):
            raise FailsafeError("the failsafe ran as another user or in this session", "see doctor")
        own = Path("/proc/self/cgroup").read_text().strip()
        if self.failsafe.kind == "systemd" and seen["cgroup"] == own:
            raise FailsafeError("the failsafe ran in the runner's control group", "see doctor")
        if seen["why_not"]:
            raise FailsafeError(
                f"from where the failsafe runs, the incumbent does not answer: {seen['why_not']}",
                "check address, key file and network",
            )
        return {
            "kind": self.failsafe.kind,
            "nonce": "equal",
            "late_s": round(late, 3),
            "own_cgroup": seen["cgroup"] != own,
            "incumbent": seen["incumbent"],
            **self.failsafe.facts(),
        }

    def _await_proof(self, proof: Path, armed: Armed) -> dict[str, Any]:
        limit = time.clock_gettime(CLOCK) + self.settings.proof_s + 60
        while time.clock_gettime(CLOCK) < limit:
            if proof.is_file():
                found: dict[str, Any] = json.loads(proof.read_text())
                return found
            time.sleep(0.1)
        self.failsafe.disarm(armed)
        raise FailsafeError("the failsafe's proof did not come", "see lanescope doctor")

    # -- armed -------------------------------------------------------------------------------------

    def arm(self) -> dict[str, Any]:
        """Arm the real one, read it back, and show life to it from now on."""
        self._next()
        self._heart.start()
        return {"kind": self.failsafe.kind, "fires_in_s": round(self.remaining(), 1)}

    def _next(self) -> None:
        armed = self.failsafe.arm(self.settings.deadline_s, RESTORE)
        self.armed.append(armed)
        self._note()
        if not self.failsafe.pending(armed):
            raise FailsafeError("the failsafe was armed and is not waiting", "see doctor")

    def _note(self) -> None:
        """Handles on disk, so that another process can disarm what a killed runner armed."""
        with contextlib.suppress(OSError):
            text = json.dumps([[a.handle, a.deadline_boottime_s] for a in self.armed])
            (self.folder / "armed.json").write_text(text)

    def adopt(self) -> None:
        """Take over what a killed runner armed."""
        with contextlib.suppress(OSError, ValueError):
            rows = json.loads((self.folder / "armed.json").read_text())
            self.armed = [Armed(str(handle), float(deadline)) for handle, deadline in rows]

    def remaining(self) -> float:
        """Seconds until it fires."""
        last = max((a.deadline_boottime_s for a in self.armed), default=0.0)
        return last - time.clock_gettime(CLOCK)

    def ensure(self, seconds: float) -> bool:
        """Have at least so long: the next is armed before the last is stopped. Whether it was."""
        if not self.armed or self.remaining() >= min(seconds, self.settings.deadline_s * 0.9):
            return False
        before = list(self.armed)
        self._next()
        for armed in before:
            if not self.failsafe.disarm(armed):
                raise FailsafeError("the last failsafe could not be stopped", "see doctor")
            self.armed.remove(armed)
        self._note()
        return True

    def fired(self) -> bool:
        """Whether it went off."""
        return (self.folder / "fired.json").exists()

    def check(self) -> None:
        """Raises unless it still waits: no step goes on without it."""
        if self.fired():
            raise FailsafeError("the failsafe fired: the window's time is over", "see its receipt")
        if not any(self.failsafe.pending(a) for a in self.armed):
            raise FailsafeError("the failsafe is not armed any more", "nothing further is touched")

    def disarm(self) -> dict[str, Any]:
        """Take every armed one away, and say whether any had fired."""
        self._beat.set()
        gone = [self.failsafe.disarm(armed) for armed in self.armed]
        if not all(gone):
            raise FailsafeError(
                "a failsafe could not be disarmed", "it finds the incumbent serving"
            )
        count, self.armed = len(self.armed), []
        self._note()
        return {"kind": self.failsafe.kind, "disarmed": count, "fired": self.fired()}
