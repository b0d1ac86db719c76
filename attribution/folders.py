"""The folder of an attribution: its name, its files, and whether it may be replaced.

Apart from `output`, which writes it: names are needed before anything heavy is imported.
"""

from __future__ import annotations

from pathlib import Path

from lanescope.schemas.errors import UsageError

DOCUMENT = "attribution.json"
STEPS = "steps.parquet"
STEP_BUCKETS = "step_buckets.parquet"
KERNELS = "kernels.parquet"
LAYER_STEPS = "layer_steps.parquet"


def default_folder(path: Path) -> Path:
    """`./NAME.lanescope/` for a trace called NAME, whatever its suffixes."""
    name = path.name
    for suffix in (".xz", ".zst", ".gz", ".sqlite", ".nsys-rep", ".csv"):
        name = name.removesuffix(suffix)
    return Path(f"{name or 'trace'}.lanescope")


def truth_beside(path: Path) -> Path | None:
    """The sidecar of exact counts of a trace, `NAME.truth.json` beside it; None without one."""
    sidecar = path.with_name(f"{default_folder(path).stem}.truth.json")
    return sidecar if sidecar.is_file() else None


def check_target(folder: Path, force: bool) -> None:
    """Refuse to overwrite. Raises `UsageError`; with `force` only our own folders are replaced."""
    if not folder.exists():
        return
    if not force:
        raise UsageError(f"{folder} exists", "choose another --out, or --force to replace it")
    ours = folder.is_dir() and ((folder / DOCUMENT).exists() or not any(folder.iterdir()))
    if not ours:
        raise UsageError(f"{folder} is not a folder that lanescope wrote", "choose another --out")
