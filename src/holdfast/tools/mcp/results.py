"""What a server answers to a call, made into blocks that every provider takes.

A block that a provider refuses would make every later request of the conversation fail, because sent bytes are final.
So images are shown only where they are what they have to be; what cannot be shown is named in its place.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..results import MAX_IMAGE_BYTES, image_type
from ..text_limits import cut, mend, shown

INPUT_REQUIRED = "input_required"
LONGEST_ERROR = 20_000


def mended(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result of tools/call with texts and images only. Structured content is given where no text says it."""
    if result.get("resultType") == INPUT_REQUIRED:
        return dict(result)
    items = result.get("content")
    content = [part for item in (items if isinstance(items, list) else ()) for part in _parts(item)]
    structured = result.get("structuredContent", result.get("toolResult"))
    if structured is not None and not any(part["type"] == "text" for part in content):
        content.append(_text(_json(structured)))
    rest = {key: result[key] for key in ("_meta", "resultType") if key in result}
    return rest | {"content": content, "isError": result.get("isError") is True}


def failure(text: str) -> str:
    """The words of a failed call, as far as they are of use."""
    return cut(mend(text).strip(), LONGEST_ERROR) or "The tool failed and did not say why."


def _parts(item: object) -> Iterator[dict[str, Any]]:
    if not isinstance(item, dict):
        yield _text(_json(item))
        return
    kind, text = item.get("type"), item.get("text")
    if kind == "text" and isinstance(text, str):
        if text:  # an empty text block is refused
            yield _text(text)
    elif kind in ("image", "audio"):
        yield _shown(item.get("data"), str(item.get("mimeType") or kind), kind)
    elif kind == "resource" and isinstance(item.get("resource"), dict):
        yield _resource(item["resource"])
    elif kind == "resource_link":
        words = (item.get("title") or item.get("name"), item.get("uri"), item.get("mimeType"), item.get("description"))
        yield _text("[resource: " + ", ".join(str(word) for word in words if word) + "]")
    else:
        yield _text(_json(item))


def _resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    name = shown(resource.get("uri") or "without a name")
    if isinstance(resource.get("text"), str):
        return _text(f"[resource {name}]\n{resource['text']}")
    return _shown(resource.get("blob"), str(resource.get("mimeType") or "of an unknown kind"), f"resource {name}")


def _shown(data: object, kind: str, what: str) -> dict[str, Any]:
    """An image where it is one, else a note that there was something."""
    if not isinstance(data, str):
        return _text(f"[{what}, {shown(kind)}: it holds nothing]")
    if data.startswith("data:"):
        data = data.partition(",")[2]
    try:
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return _text(f"[{what}, {shown(kind)}: not shown, it is no valid base64]")
    if (image := image_type(raw)) and len(raw) <= MAX_IMAGE_BYTES:
        return {"type": "image", "data": base64.b64encode(raw).decode("ascii"), "mimeType": image}
    return _text(f"[{what}, {shown(kind)}, {len(raw)} bytes: not shown]")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": mend(text)}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
