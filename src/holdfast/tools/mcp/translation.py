"""A server's tools and results, translated into forms that every provider accepts.

Servers are untrusted. One bad tool must not lose the others, so each is checked by itself, repaired if its meaning is
plain, and left out with a warning if it is not. A laxer schema is harmless: the server checks its input itself. A block
that a provider refuses would make every later request of the conversation fail, because sent bytes are final. So only
valid images are shown; anything that cannot be shown is named instead.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from holdfast.config.sections import McpSettings
from holdfast.records import NotJson, canonical_json

from ..contract import MCP_PREFIX, Effect, Run, Tool, ToolExecutionError
from ..results import MAX_IMAGE_BYTES, image_type
from ..text_limits import cut, mend, shown
from ..validation import check
from .configuration import McpServer

LONGEST_NAME = 64
_LONGEST_SERVER = 24
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_UNDERSCORES = re.compile(r"__+")
MOST_TOOLS = 1000
_MOST_WARNINGS = 20
_LONGEST_HINT = 200
_LARGEST_SCHEMA = 200_000
_ALTERNATIVES = ("oneOf", "anyOf", "allOf")
GRACE_S = 10.0
"""Extra seconds of a call for cancelling it at the server after its timeout."""
INPUT_REQUIRED = "input_required"
LONGEST_ERROR = 20_000


def tool_name(server: str, tool: str) -> str:
    """What a server's tool is called: `mcp__server__tool`, from `[a-zA-Z0-9_-]`, at most 64 characters.

    A function of the two names alone, so that a tool that comes or goes later cannot rename another. Where anything had
    to be changed or cut, a digest keeps it apart from others.
    """
    head = f"{MCP_PREFIX}{server_part(server)}__"
    return head + _fitted(_ODD.sub("_", tool), tool, LONGEST_NAME - len(head))


def server_part(server: str) -> str:
    """A server's name within names of tools. It holds no `__` and does not end with `_`, so it can be told apart."""
    plain = _UNDERSCORES.sub("_", _ODD.sub("_", server)).strip("_")
    return _fitted(plain, server, _LONGEST_SERVER)


def _fitted(plain: str, original: str, longest: int) -> str:
    if plain == original and 0 < len(plain) <= longest:
        return plain
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    start = plain[: longest - len(digest) - 1].rstrip("_")
    return f"{start}_{digest}" if start else digest


class ListedTool(Struct, frozen=True, kw_only=True):
    """One tool as its server lists it; `schema` is canonical JSON text."""

    name: str
    description: str = ""
    title: str = ""
    schema: bytes = b'{"type":"object"}'
    read_only: bool = False
    """The server's own claim."""


def mended_list(result: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    """The result of tools/list as the protocol has it: only what is of use of each tool, and only tools that can be."""
    tools = result.get("tools")
    usable = []
    for item in tools if isinstance(tools, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
            _leave_out(left_out, "a tool without a name is left out")
            continue
        schema = _schema(item.get("inputSchema"))
        if isinstance(schema, str):
            _leave_out(left_out, f"the tool {shown(item['name'])} is left out: {schema}")
            continue
        hints = item.get("annotations")
        hints = hints if isinstance(hints, dict) else {}
        tool: dict[str, Any] = {"name": item["name"], "inputSchema": schema}
        tool |= {key: item[key] for key in ("title", "description") if isinstance(item.get(key), str)}
        if isinstance(hints.get("title"), str):
            tool.setdefault("title", hints["title"])
        tool["annotations"] = {"readOnlyHint": hints.get("readOnlyHint") is True}
        usable.append(tool)
    cursor = result.get("nextCursor")
    rest = {key: value for key, value in result.items() if key not in ("tools", "nextCursor")}
    return rest | {"tools": usable} | ({"nextCursor": cursor} if isinstance(cursor, str) and cursor else {})


def _leave_out(warnings: list[str], why: str) -> None:
    if len(warnings) <= _MOST_WARNINGS:  # a list may hold a million bad tools
        warnings.append(why)


def few(warnings: Iterable[str]) -> tuple[str, ...]:
    """Each warning once, and no more of them than anybody reads."""
    every = tuple(dict.fromkeys(warnings))
    return every if len(every) <= _MOST_WARNINGS else (*every[:_MOST_WARNINGS], "there are more warnings like these")


def _schema(schema: object) -> dict[str, Any] | str:
    """An input schema that can be declared, or what is wrong with it."""
    if schema is None:
        return {"type": "object"}
    if not isinstance(schema, dict):
        return "its schema is no object"
    # Null for "none" is what some languages write. Alternatives at the top are refused by Anthropic.
    schema = {key: part for key, part in schema.items() if part is not None and key not in _ALTERNATIVES}
    if "type" not in schema:
        schema = {"type": "object", **schema}
    if schema["type"] != "object":
        return "its schema does not describe an object"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(part, (dict, bool)) for part in properties.values()):
        return "the properties of its schema are no table of schemas"
    if not isinstance(required, list) or not all(isinstance(part, str) for part in required):
        return "what its schema requires is no list of names"
    if not isinstance(schema.get("$schema", ""), str):
        return "its schema names its dialect with something that is no text"
    return schema


def listed(name: str, schema: Mapping[str, Any], *, description: str, title: str, read_only: bool) -> ListedTool | str:
    """A tool with its schema as text, or why it cannot be used. Takes its time with schemas: not for the event loop."""
    try:
        text = canonical_json(json.dumps(schema, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
        if len(text) > _LARGEST_SCHEMA:
            return f"the tool {shown(name)} is left out: its schema has {len(text)} bytes"
        check(name, text, {}, stranger=True)
    except ToolExecutionError as problem:
        return f"the tool {shown(name)} is left out: {problem}"
    except (NotJson, ValueError, RecursionError):
        return f"the tool {shown(name)} is left out: its schema is not JSON"
    return ListedTool(name=name, description=mend(description), title=mend(title), schema=text, read_only=read_only)


def tools_of(
    server: McpServer, listed: Iterable[ListedTool], settings: McpSettings, run: Mapping[str, Run], warnings: list[str]
) -> dict[str, Tool]:
    """The tools of a server by the names they get. Of two with one name the first is used."""
    tools: dict[str, Tool] = {}
    for tool in listed:
        name = tool_name(server.name, tool.name)
        if name in tools:
            warnings.append(f"the tool {shown(tool.name)} is left out: another has this name")
        elif len(tools) == MOST_TOOLS:
            warnings.append(f"all tools after the first {MOST_TOOLS} are left out")
            break
        else:
            tools[name] = _tool(server, name, tool, settings, run[tool.name])
    return tools


def _tool(server: McpServer, name: str, tool: ListedTool, settings: McpSettings, run: Run) -> Tool:
    trusted_read_only = tool.read_only and server.trust_hints
    reads_only = trusted_read_only or any(fnmatchcase(tool.name, pattern) for pattern in server.read_only)
    effect: Effect = "read" if reads_only else "network" if server.url is not None else "execute"
    return Tool(
        name=name,
        description=_short(tool.description or tool.title, settings.description_chars),
        run=run,
        effect=effect,
        input_schema=tool.schema,
        source="mcp",
        server=server.name,
        timeout_s=(server.timeout_s or settings.timeout_s) + GRACE_S,
        hints=tuple(dict.fromkeys(word[:_LONGEST_HINT] for word in (server.name, tool.name, tool.title) if word)),
    )


def _short(text: str, limit: int) -> str:
    """A description within the limit; what is cut is announced, by a number that depends on the text alone."""
    text = text.strip()
    if len(text) <= limit:
        return text
    note = f"… [{len(text) - limit} more characters are left out]"
    return text[:limit].rstrip() + note


def mended_result(result: Mapping[str, Any]) -> dict[str, Any]:
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


def _shown(data: object, kind: str, label: str) -> dict[str, Any]:
    """An image where it is one, else a note that there was something."""
    if not isinstance(data, str):
        return _text(f"[{label}, {shown(kind)}: it holds nothing]")
    if data.startswith("data:"):
        data = data.partition(",")[2]
    try:
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return _text(f"[{label}, {shown(kind)}: not shown, it is no valid base64]")
    if (image := image_type(raw)) and len(raw) <= MAX_IMAGE_BYTES:
        return {"type": "image", "data": base64.b64encode(raw).decode("ascii"), "mimeType": image}
    return _text(f"[{label}, {shown(kind)}, {len(raw)} bytes: not shown]")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": mend(text)}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
