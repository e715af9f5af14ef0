"""A wrong value is refused when it is written, in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.records import Usage
from holdfast.store import Call, open_store
from holdfast.store import operations as op


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "done"),
        ("started_at", 1.5),
        ("started_at", "now"),
        ("tenant", None),
        ("usage", {"input": -1}),
        ("usage", Usage(input=-1)),
        ("reset", "because"),
    ],
)
def test_a_wrong_call_names_the_field(field: str, value: object, tmp_path: Path) -> None:
    right: dict[str, Any] = {
        "tenant": "t",
        "id": "c",
        "session": "s",
        "lane": "l",
        "model": "m",
        "started_at": 1,
        "usage": Usage(input=1),
    }
    with open_store(tmp_path / "s.db") as store:
        store.write(op.PutCall(Call(**right))).result()
        with pytest.raises(HoldfastError, match=rf"call cannot be stored.*{field}"):
            store.write(op.PutCall(Call(**{**right, field: value}))).result()
        assert len(store.calls()) == 1
