"""What a server answers to a call, and the blocks that are made of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from holdfast.tools.mcp.translation import LONGEST_ERROR, failure, mended_result

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 30
ENCODED = base64.b64encode(PNG).decode()


def text(result: dict[str, Any]) -> list[str]:
    return [part.get("text", part["type"]) for part in mended_result(result)["content"]]


def test_texts_stay_and_empty_ones_go() -> None:
    content = [{"type": "text", "text": part} for part in ("one", "", "two")]
    assert text({"content": content}) == ["one", "two"]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF0000WEBP", "image/webp"),
    ],
)
def test_an_image_has_the_type_that_it_is_of(head: bytes, kind: str) -> None:
    """A provider refuses an image that is called something else, and with it every later request."""
    data = base64.b64encode(head + b"\0" * 20).decode()
    (part,) = mended_result({"content": [{"type": "image", "data": data, "mimeType": "image/bmp"}]})["content"]
    assert (part["mimeType"], part["data"]) == (kind, data)


def test_an_image_may_come_in_lines_or_as_a_data_address() -> None:
    for data in (f"data:image/png;base64,{ENCODED}", ENCODED[:20] + "\n" + ENCODED[20:]):
        (part,) = mended_result({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})["content"]
        assert part == {"type": "image", "data": ENCODED, "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"type": "image", "data": "not base64!", "mimeType": "image/png"}, "not shown, it is no valid base64"),
        ({"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"}, "[image, image/svg+xml, 3 bytes: not shown]"),
        ({"type": "image", "mimeType": "image/png"}, "it holds nothing"),
        ({"type": "image", "data": base64.b64encode(PNG + b"\0" * 4_000_000).decode()}, "4000038 bytes: not shown]"),
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio, audio/wav, 3 bytes: not shown]"),
        ({"type": "resource_link", "name": "log", "uri": "file:///log"}, "[resource: log, file:///log]"),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}}, "[resource file:///a]\nhi"),
        ({"type": "resource", "resource": {"uri": "u", "blob": "AAAA"}}, "[resource u, of an unknown kind, 3 bytes"),
        ({"type": "hologram", "depth": 3}, '{"type":"hologram","depth":3}'),
        ({"type": "resource", "resource": 5}, '{"type":"resource","resource":5}'),
        ("bare", '"bare"'),
        ({"type": "text", "text": "half \ud83d"}, "half \ufffd"),
    ],
)
def test_what_cannot_be_shown_is_named(item: object, says: str) -> None:
    (said,) = text({"content": [item]})
    assert says in said


def test_an_image_in_a_resource_is_shown() -> None:
    assert text({"content": [{"type": "resource", "resource": {"uri": "u", "blob": ENCODED}}]}) == ["image"]


def test_structured_content_is_given_where_no_text_says_it() -> None:
    structured = {"structuredContent": {"b": 1, "a": [2]}}
    assert text({"content": [], **structured}) == ['{"b":1,"a":[2]}']
    assert text({"content": [{"type": "image", "data": ENCODED}], **structured}) == ["image", '{"b":1,"a":[2]}']
    assert text({"content": [{"type": "text", "text": "b is 1"}], **structured}) == ["b is 1"]
    assert text({"toolResult": "old"}) == ['"old"']


def test_whatever_a_result_is_it_can_be_read() -> None:
    assert mended_result({}) == {"content": [], "isError": False}
    assert mended_result({"content": "text", "isError": "yes"}) == {"content": [], "isError": False}
    assert mended_result({"content": [], "isError": True, "_meta": {}})["isError"] is True


def test_the_words_of_a_failure_have_an_end() -> None:
    assert failure(" it broke ") == "it broke"
    assert failure("  ") == "The tool failed and did not say why."
    assert len(failure("x" * 1_000_000)) < LONGEST_ERROR + 100
