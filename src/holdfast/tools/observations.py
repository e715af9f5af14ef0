"""The tool results of a body: where they stand, which call they answer, what they say, and which are obsolete.

Finding them costs a look at each block; reading one decodes it. A caller that needs only their number and sizes asks
for the sites. Knows how the dialects spell calls and results.

A result is obsolete when its file was read again or changed, or its error overcome, by a call made after the result was
there: parallel calls make nothing obsolete.
"""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Prompt
from holdfast.engine import is_signed
from holdfast.records import encode_string
from holdfast.wire import DIALECTS, Body, array_of, canon, obj, object_of, string_of
from holdfast.wire.codecs import MADE_ID, MARKER_KEYS

from .contract import CALL_TOOL
from .guides import HEADING
from .offload import is_reference

RESULTS = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_MODELS = ("assistant", "model")
CALLS = frozenset({"tool_use", "function_call", "custom_tool_call"})
_TEXTS = ("text", "input_text", "output_text")
_MEDIA = ("image", "document", "image_url", "input_image", "input_file", "file")
_GEMINI_MEDIA = ("inlineData", "fileData", "inline_data", "file_data")
_WRAPPED = ("function", "custom", "functionCall")  # where a call's name and input stand, if not beside its id
CLEARED = "[cleared]"
"""What stands for the further parts of a result of several: their number has to stay."""
Death = Literal["superseded", "overcome"]

_READS, _WRITES = frozenset({"read_file"}), frozenset({"write_file", "patch_file"})
_PATH = "path"
_SUBJECTS = ("path", "command", "pattern", "query", "url", "name")
"""What a call is about, in the order of trust: a call that failed is overcome by one about the same."""

_UNSAID = (("offset", 1), ("offset", None), ("limit", None))

Key = tuple[str, ...]


class ResultSite(Struct, frozen=True, gc=False):
    """A tool result by its places: its blocks in the prompt, the same in the body, its size in bytes.

    `unread` if the model has not answered since: it has yet to see the result.
    """

    blocks: tuple[int, ...]
    places: tuple[int, ...]
    size: int
    unread: bool = False


class ObservedCall(Struct, frozen=True):
    """A call of a tool. `input` is JSON text; `at` the block of the prompt, -1 for a call that is nowhere."""

    id: str
    tool: str
    input: bytes = b""
    at: int = -1
    via: str | None = None
    """The tool that was named, where that is another."""


class Observation(Struct, frozen=True, kw_only=True):
    """A tool result that was read.

    `texts` are its text parts; `characters` counts them and the data of pictures and files. `plain` if it holds nothing
    else, and nothing that the provider signed.
    """

    site: ResultSite
    digests: tuple[bytes, ...]
    call: ObservedCall
    texts: tuple[str, ...]
    characters: int
    is_error: bool
    plain: bool

    @property
    def tool(self) -> str:
        return self.call.tool

    @property
    def stays(self) -> bool:
        """Whether it must not be masked: it refers to an offloaded result or contains a guide."""
        return any(is_reference(text) or HEADING in text for text in self.texts)


class _Content(Struct):
    """The content of a result, before its call is known."""

    id: str = ""
    name: str = ""
    texts: list[str] = []
    characters: int = 0
    is_error: bool = False
    plain: bool = True

    def text(self, text: str) -> None:
        self.texts.append(text)
        self.characters += len(text)

    def other(self, size: int, plain: bool) -> None:
        self.characters += size
        self.plain = self.plain and plain


def sites(body: Body, prompt: Prompt) -> list[ResultSite]:
    """Return the tool results of a body in order. `prompt` is the body as read by its reader."""
    results: list[ResultSite] = []
    origin, spans = prompt.origin or range(len(prompt.blocks)), body.blocks
    gemini = body.dialect == "gemini"
    before = (-1, -1)  # the message of the result before, and its last block
    model_block = -1  # the last block that is the model's
    for index, block in enumerate(prompt.blocks):
        is_tool = block.role == "tool"
        goes_on = before == (block.message, index - 1) and (is_tool or (gemini and block.kind in _GEMINI_MEDIA))
        if block.section != "messages" or not (block.kind in RESULTS or is_tool or goes_on):
            model_block = index if block.role in _MODELS or block.kind in CALLS else model_block
            continue
        place = origin[index]
        size = spans[place].end - spans[place].start
        if goes_on:
            last = results[-1]
            results[-1] = ResultSite((*last.blocks, index), (*last.places, place), last.size + size)
        else:
            results.append(ResultSite((index,), (place,), size))
        before = block.message, index
    return [replace(site, unread=True) if site.blocks[0] > model_block else site for site in results]


def observe(body: Body, prompt: Prompt, results: Sequence[ResultSite]) -> list[Observation]:
    """Read these results, each with the call it answers."""
    contents = [_read(body, site) for site in results]
    calls = _calls(body, prompt, [(site.blocks[0], each) for site, each in zip(results, contents, strict=True)])
    dialect = DIALECTS[body.dialect]
    return [
        Observation(
            site=site,
            digests=tuple([prompt.blocks[index].digest for index in site.blocks]),
            call=call,
            texts=tuple(each.texts),
            characters=each.characters,
            is_error=each.is_error,
            plain=each.plain and not any(is_signed(dialect, body, place) for place in site.places),
        )
        for site, each, call in zip(results, contents, calls, strict=True)
    ]


def replaced(body: Body, site: ResultSite, text: str) -> list[bytes]:
    """The blocks of a result with this text in the place of what they say. What names the call, and whether it failed,
    stays; markers are left to the plan."""
    first, *others = site.places
    return [_saying(body, first, text), *(_saying(body, place, CLEARED) for place in others)]


# What a result says


def _read(body: Body, site: ResultSite) -> _Content:
    content = _Content(texts=[])
    for place in site.places:
        span = body.blocks[place]
        raw = body.text(span)
        members = {} if span.form == "string" else object_of(raw)
        if members is None:
            content.other(len(raw), plain=False)
        elif body.dialect == "gemini":
            _read_gemini(members, raw, content)
        elif span.role == "tool":
            _add_content(raw, content)
        else:
            content.id = string_of(members.get("tool_use_id", members.get("call_id"))) or ""
            content.is_error = members.get("is_error") == b"true"
            _add_content(members.get("output", members.get("content", b"null")), content)
        for start, end in span.context:
            further = object_of(b"{" + body.raw[start:end] + b"}") or {}
            content.id = string_of(further.get("tool_call_id")) or content.id
    return content


def _add_content(raw: bytes, content: _Content) -> None:
    """A text, a part, or a list of parts."""
    if (text := string_of(raw)) is not None:
        content.text(text)
        return
    parts = [raw] if raw[:1] == b"{" else array_of(raw)
    if parts is None:
        if raw != b"null":
            content.other(len(raw), plain=False)
        return
    for part in parts:
        members = object_of(part) or {}
        kind, words = string_of(members.get("type")), string_of(members.get("text"))
        if kind in _TEXTS and words is not None:
            content.text(words)
        else:
            content.other(len(part), plain=kind in _MEDIA)


def _read_gemini(members: Mapping[str, bytes], raw: bytes, content: _Content) -> None:
    answer = object_of(members.get("functionResponse", b""))
    if answer is None:
        content.other(len(raw), plain=len(members) == 1 and next(iter(members)) in _GEMINI_MEDIA)
        return
    content.id, content.name = string_of(answer.get("id")) or "", string_of(answer.get("name")) or ""
    response = answer.get("response", b"{}")
    inner = object_of(response) or {}
    key, value = next(iter(inner.items()), ("", b""))
    text = string_of(value) if len(inner) == 1 else None
    content.is_error = key == "error" and len(inner) == 1
    content.text(response.decode("utf-8", "replace") if text is None else text)
    if "parts" in answer:
        content.other(len(answer["parts"]), plain=True)
    content.plain = content.plain and len(members) == 1 and not answer.keys() - {"id", "name", "response", "parts"}


# Which call it answers


def _calls(body: Body, prompt: Prompt, results: Sequence[tuple[int, _Content]]) -> list[ObservedCall]:
    """The call of each result: by its id, or, where there is none, the first of its name that waits for an answer."""
    by_id: dict[str, ObservedCall] = {}
    waiting: defaultdict[str, dict[str, None]] = defaultdict(dict)
    calls: list[ObservedCall] = []
    number, place = 0, 0
    for index, content in results:
        while place < index:
            call = _call(body, prompt, place)
            place += 1
            if call is None:
                continue
            if not call.id:
                number += 1
                call = ObservedCall(f"{MADE_ID}{number}", call.tool, call.input, call.at, call.via)
            by_id[call.id] = call
            waiting[call.via or call.tool][call.id] = None
        identity = content.id or next(iter(waiting[content.name]), "")
        call = by_id.get(identity) or ObservedCall(identity, content.name)
        waiting[call.via or call.tool].pop(identity, None)
        calls.append(call)
    return calls


def _call(body: Body, prompt: Prompt, index: int) -> ObservedCall | None:
    """The call that this block of the prompt is."""
    block = prompt.blocks[index]
    if block.kind not in CALLS or block.section != "messages":
        return None
    members = object_of(body.text(body.blocks[prompt.place(index)])) or {}
    wrapped = next((key for key in _WRAPPED if key in members), None)
    inner = members if wrapped is None else object_of(members[wrapped]) or {}
    name = string_of(inner.get("name"))
    if name is None:
        return None
    identity = next((text for key in ("call_id", "id") if (text := string_of({**inner, **members}.get(key)))), "")
    arguments = next((inner[key] for key in ("arguments", "args", "input") if key in inner), b"{}")
    if "arguments" in inner:
        arguments = (string_of(arguments) or "").encode("utf-8", "surrogatepass")
    return _unwrapped(ObservedCall(identity, name, arguments, index))


def _unwrapped(call: ObservedCall) -> ObservedCall:
    """Return the call made through another tool as a call of the inner tool."""
    if call.tool != CALL_TOOL:
        return call
    members = object_of(call.input) or {}
    name = string_of(members.get("name"))
    return call if name is None else ObservedCall(call.id, name, members.get("arguments", b"{}"), call.at, CALL_TOOL)


# What stands in its place


def _saying(body: Body, place: int, text: str) -> bytes:
    span, new = body.blocks[place], encode_string(text)
    if span.form == "string":
        return new
    members = object_of(body.text(span)) or {}
    if body.dialect == "gemini":
        answer = object_of(members.get("functionResponse", b""))
        if answer is None:
            return obj((("text", new),))
        inner = object_of(answer.get("response", b"{}")) or {}
        key = next(iter(inner)) if len(inner) == 1 else "result"
        members_left = {name: canon(value) for name, value in answer.items() if name != "parts"}
        return obj((("functionResponse", obj((members_left | {"response": obj(((key, new),))}).items())),))
    if span.role == "tool":
        return obj((("type", b'"text"'), ("text", new)))
    name = "output" if "output" in members else "content"
    return obj((key, new if key == name else value) for key, value in members.items() if key not in MARKER_KEYS)


def deaths(observations: Sequence[Observation], failed: Collection[str] = ()) -> dict[int, Death]:
    """Which of the results are dead, by their number. `failed` are the ids of calls known to have failed, where the
    dialect does not say."""
    inputs = [_input(each) for each in observations]
    errors = [each.is_error or each.call.id in failed for each in observations]
    latest: dict[Key, int] = {}  # the last successful call that makes others dead
    for each, input_, error in zip(observations, inputs, errors, strict=True):
        for key in () if error else _obsolete_keys(each, input_):
            latest[key] = max(latest.get(key, -1), each.call.at)
    dead: dict[int, Death] = {}
    for number, (each, input_, error) in enumerate(zip(observations, inputs, errors, strict=True)):
        for key in _killed_by(each, input_, error):
            if latest.get(key, -1) > each.site.blocks[-1]:
                dead[number] = "overcome" if error else "superseded"
    return dead


def _input(each: Observation) -> Mapping[str, Any]:
    """What a call was given. Some models write it as JSON text, once more inside a string."""
    value: Any = each.call.input
    for _ in range(2):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        if isinstance(value, dict):
            return value
        if not isinstance(value, str):
            break
    return {}


def _obsolete_keys(each: Observation, input_: Mapping[str, Any]) -> tuple[Key, ...]:
    """Return the keys of results that a successful call makes obsolete."""
    keys: tuple[Key, ...] = (("failed", each.tool, _subject(input_)),)
    if each.tool in _READS:
        keys += (("read", _path(input_), _rest(input_)),)
    elif each.tool in _WRITES:
        keys += (("written", _path(input_)),)
    return keys


def _killed_by(each: Observation, input_: Mapping[str, Any], error: bool) -> tuple[Key, ...]:
    """What would make this result dead."""
    if error:
        return (("failed", each.tool, _subject(input_)),)
    if each.tool in _READS and _path(input_):
        return ("read", _path(input_), _rest(input_)), ("written", _path(input_))
    return ()


def _path(input_: Mapping[str, Any]) -> str:
    path = input_.get(_PATH)
    return posixpath.normpath(path) if isinstance(path, str) and path else ""


def _rest(input_: Mapping[str, Any]) -> str:
    """Return the requested part of a file without defaults, such as starting at the first line."""
    return _text({key: value for key, value in input_.items() if key != _PATH and (key, value) not in _UNSAID})


def _subject(input_: Mapping[str, Any]) -> str:
    for name in _SUBJECTS:
        value = input_.get(name)
        if isinstance(value, str) and value:
            return f"{name}={posixpath.normpath(value) if name == _PATH else value}"
    return _text(input_)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
