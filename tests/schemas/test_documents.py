"""Every document has a JSON Schema in the repository, and it is today's."""

import json

import pytest

from lanescope.schemas.documents import generate
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("name", generate.DOCUMENTS)
def test_the_kept_schema_is_todays(name: str) -> None:
    kept = (REPOSITORY / "schemas" / "documents" / name).read_text()
    assert kept == generate.schema_text(name)
    assert json.loads(kept)["additionalProperties"] is False
