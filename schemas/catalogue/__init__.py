"""The catalogue: windows, artifacts, attributions, gate verdicts and the ladder, in one database.

`open_catalogue()` gives a `Catalogue`; its `read()` and `write()` give SQLAlchemy sessions over the
models in `models.py`. SQLite under the user's data folder by default, PostgreSQL by URL.
"""

from lanescope.schemas.catalogue.models import (
    Artifact,
    AttributionRow,
    Base,
    GateRow,
    Rung,
    RungMark,
    Window,
)
from lanescope.schemas.catalogue.store import Catalogue, default_url, open_catalogue

__all__ = [
    "Artifact",
    "AttributionRow",
    "Base",
    "Catalogue",
    "GateRow",
    "Rung",
    "RungMark",
    "Window",
    "default_url",
    "open_catalogue",
]
