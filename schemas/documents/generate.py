"""The JSON Schemas of the documents, kept in the repository beside this file.

`python -m lanescope.schemas.documents.generate FOLDER` writes them; with `--check` it only says
which ones are out of date and exits with 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from lanescope.schemas.documents.attribution import AttributionDocument
from lanescope.schemas.documents.comparison import ComparisonDocument
from lanescope.schemas.documents.gate import GateDocument, GateRules
from lanescope.schemas.documents.ladder import LadderDocument
from lanescope.schemas.documents.lane import Lane
from lanescope.schemas.documents.ranks import RanksDocument
from lanescope.schemas.documents.receipt import Manifest, Receipt
from lanescope.schemas.documents.window import Window

#: file name -> the document it describes
DOCUMENTS: dict[str, type[BaseModel]] = {
    "attribution.schema.json": AttributionDocument,
    "comparison.schema.json": ComparisonDocument,
    "gate.schema.json": GateDocument,
    "gate-rules.schema.json": GateRules,
    "ladder.schema.json": LadderDocument,
    "lane.schema.json": Lane,
    "manifest.schema.json": Manifest,
    "ranks.schema.json": RanksDocument,
    "receipt.schema.json": Receipt,
    "window.schema.json": Window,
}


def schema_text(name: str) -> str:
    """The JSON Schema of a document, as kept."""
    schema = DOCUMENTS[name].model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def main(argv: list[str]) -> int:
    """Write or check the schemas in a folder."""
    check = "--check" in argv
    folder = Path(next((a for a in argv if not a.startswith("-")), Path(__file__).parent))
    stale = []
    for name in DOCUMENTS:
        file, text = folder / name, schema_text(name)
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            file.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'out of date' if check else 'written'}: {', '.join(stale)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
