"""The failsafe as a transient systemd timer in system scope.

Used where systemd is PID 1 (`/run/systemd/system` exists); never reloads the daemon: beside running
containers that can take their GPUs away.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from lanescope.profiler.adapters import commands
from lanescope.profiler.adapters.failsafe import Armed, FailsafeError

BOOT_UNIT = "lanescope-restore-at-boot.service"
UNIT_PLACE = Path("/etc/systemd/system")


def available() -> bool:
    """Whether system-scope timers can be made here: systemd runs, and we may ask it."""
    return Path("/run/systemd/system").is_dir() and os.geteuid() == 0


def _systemctl(*words: str) -> tuple[int, str]:
    return _run(["systemctl", "--no-pager", "--no-ask-password", *words])


def _run(words: list[str]) -> tuple[int, str]:
    return commands.run(words, dict(os.environ), 30)


class Systemd:
    """Transient timers that run the restore script outside the runner's control group."""

    kind = "systemd"

    def __init__(self, command: list[str], folder: Path, run: str) -> None:
        self.command, self.folder, self.run = command, folder, run
        self._count = 0

    def arm(self, seconds: float, words: list[str]) -> Armed:
        """Make the timer and read back that it waits."""
        self._count += 1
        unit = f"lanescope-{words[0]}-{self.run}-{os.getpid()}-{self._count}"
        properties = ["Type=exec", "KillMode=process", "TimeoutStartSec=infinity"]
        call = ["systemd-run", f"--unit={unit}", "--collect", f"--on-active={seconds:.3f}s"]
        call += ["--timer-property=AccuracySec=100ms", "--timer-property=RemainAfterElapse=no"]
        call += [word for p in properties for word in ("-p", p)]
        deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + seconds
        code, text = _run([*call, "--", *self.command, *words])
        armed = Armed(unit, deadline)
        if code != 0 or not self.pending(armed):
            raise FailsafeError(f"systemd-run: exit {code}: {text.strip()[:200]}", "see doctor")
        return armed

    def pending(self, armed: Armed) -> bool:
        """Whether the timer is active and will elapse."""
        code, text = _systemctl("show", f"{armed.handle}.timer", "-p", "ActiveState,SubState")
        return code == 0 and "ActiveState=active" in text and "SubState=waiting" in text

    def disarm(self, armed: Armed) -> bool:
        """Stop the timer; the service, if it fired, goes on."""
        if self.pending(armed):
            _systemctl("stop", f"{armed.handle}.timer")
        return not self.pending(armed)

    def journal(self, armed: Armed) -> str:
        """What systemd wrote about the service of a timer that fired."""
        code, text = _run(
            ["journalctl", "--no-pager", "-o", "cat", "-u", f"{armed.handle}.service"]
        )
        return text.strip()[-500:] if code == 0 else ""

    def facts(self) -> dict[str, Any]:
        """Its limits: transient units vanish at a reboot; the boot unit covers that."""
        installed = (UNIT_PLACE / BOOT_UNIT).is_file()
        code, text = _run(["systemctl", "--version"])
        found = re.match(r"systemd (\d+)", text)
        return {
            "kind": self.kind,
            "survives_reboot": installed,
            "boot_unit": "installed"
            if installed
            else "not installed: lanescope doctor --boot-unit",
            "systemd": found[1] if code == 0 and found else None,
        }


def boot_unit(state: Path) -> str:
    """The unit that restores after a reboot in the middle of a window, if its marker is there."""
    return f"""[Unit]
Description=Bring a lanescope incumbent back after a reboot in the middle of a window
After=network-online.target docker.service
Wants=network-online.target
ConditionPathExists={state}/armed

[Service]
Type=oneshot
KillMode=process
ExecStart={state}/armed restore failsafe

[Install]
WantedBy=multi-user.target
"""


def install_boot_unit(state: Path) -> Path:
    """Write the unit and its link; read at the next boot, so nothing is reloaded now."""
    target = UNIT_PLACE / BOOT_UNIT
    wants = UNIT_PLACE / "multi-user.target.wants"
    try:
        wants.mkdir(parents=True, exist_ok=True)
        target.write_text(boot_unit(state))
        (wants / BOOT_UNIT).unlink(missing_ok=True)
        (wants / BOOT_UNIT).symlink_to(target)
    except OSError as exc:
        raise FailsafeError(f"{target}: {exc.strerror}", "run it as root") from exc
    return target
