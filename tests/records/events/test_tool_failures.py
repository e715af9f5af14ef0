"""A failed tool says why, and only where prompts may be read."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.records.events import CATALOGUE


def test_tool_failed_must_carry_a_message() -> None:
    failed = CATALOGUE["tool.failed"]
    fields = {field.name: field for field in msgspec.structs.fields(failed)}
    assert fields["error_message"].required
    with pytest.raises(TypeError):
        failed()
    assert failed.sensitivity == "private"
