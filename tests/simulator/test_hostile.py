"""Whatever a client sends is answered in its provider's form: `Simulator.answer` never raises, memory is bounded."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.simulator import HttpRequest, HttpResponse, Simulator, VirtualClock
from holdfast.simulator import provider as simulator_core
from holdfast.simulator.script import ECHO, CallStep, Script, ScriptRule, ScriptStep
from holdfast.simulator.script.schema_inputs import MOST_VALUES, fit
from tests.shapes import load
from tests.simulator.http_client import ANTHROPIC, GEMINI, OPENAI, message

KEYS = ANTHROPIC | OPENAI | GEMINI
HALF = "\ud800"
"""Half of a surrogate pair: valid in JSON as an escape, impossible in UTF-8."""

GENERATE = "/v1beta/models/gemini-3-pro:generateContent"
CALLING = Script(name="calls", rules=(ScriptRule(ScriptStep(say="{last}", think="Hm.", calls=(CallStep("any"),))),))


def simulator(script: Script = ECHO) -> Simulator:
    return Simulator(clock=VirtualClock(), script=script)


def send(to: Simulator, path: str, body: Any, *, method: str = "POST", **query: str) -> HttpResponse:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = to.answer(HttpRequest(method, path, KEYS, query, raw))
    if answer.chunks is None:
        json.loads(answer.body)
    return answer


def odd_values() -> list[Any]:
    return [None, True, -1, 1e308, 10**30, "", HALF, "é", [], {}, [{}], {"type": HALF}, {HALF: 1}, "claude-" + HALF]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def mutate(value: Any, chance: random.Random) -> None:
    found = [path for path in places(value) if len(path) <= chance.randint(1, 7)]
    if not found:
        return
    *way, last = chance.choice(found)
    holder = value
    for step in way:
        holder = holder[step]
    match chance.randrange(4):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, dict):
            holder[chance.choice([HALF, "cache_control", "thread", "previous_response_id", "role"])] = HALF
        case 2 if isinstance(holder[last], str):
            holder[last] = holder[last][:5] + HALF + holder[last][5:]
        case _:
            holder[last] = chance.choice(odd_values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_recorded_requests_gone_wrong(seed: int) -> None:
    chance = random.Random(seed)
    targets = [simulator(), simulator(CALLING)]
    shapes = [shape for shape in load() if shape.dialect and shape.body is not None and len(shape.body) < 60_000]
    for _ in range(150):
        shape = chance.choice(shapes)
        body = json.loads(shape.body.decode("utf-8", "surrogatepass"))
        for _ in range(chance.randint(1, 4)):
            mutate(body, chance)
        raw = bytearray(json.dumps(body, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass"))
        if chance.random() < 0.2 and raw:
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        answer = send(chance.choice(targets), shape.path.partition("?")[0], bytes(raw))
        assert 200 <= answer.status < 600


NESTED = {
    "/v1/messages": b'{"model":"claude-opus-5-5","max_tokens":5,"x":@,"messages":[{"role":"user","content":"x"}]}',
    "/v1/chat/completions": b'{"model":"gpt-5.5","messages":[{"role":"user","content":@}]}',
    "/v1/responses": b'{"model":"gpt-5.5","text":{"format":@},"input":"x"}',
    GENERATE: b'{"contents":[{"parts":[{"text":"x","z":@}]}],"generationConfig":{"stopSequences":@}}',
    "/v1beta/cachedContents": b'{"model":"models/gemini-3-pro","ttl":@,"contents":[{"parts":[{"text":"x"}]}]}',
}


@pytest.mark.parametrize("path", NESTED)
def test_any_depth(path: str) -> None:
    """A check stands deeper on the stack than the parse: near the interpreter's limit one passes and the other does
    not."""
    target = simulator(CALLING)
    limit = sys.getrecursionlimit()
    for depth in (10, *range(limit - 130, limit + 5), 100_000):
        answer = send(target, path, NESTED[path].replace(b"@", b"[" * depth + b"]" * depth))
        assert answer.status in (200, 400, 500), answer.body
    assert answer.status == 400


@pytest.mark.parametrize(
    ("path", "raw", "words"),
    [
        ("/v1/messages", json.dumps(message("x@")), b"not UTF-8"),
        ("/v1/chat/completions", '{"model":"gpt-5.5","messages":[{"role":"user","content":"@"}]}', b"could not parse"),
        ("/v1/responses", '{"model":"gpt-5.5","input":"@"}', b"could not parse"),
        (GENERATE, '{"contents":[{"parts":[{"text":"@"}]}]}', b"Invalid JSON payload"),
        ("/v1beta/cachedContents", '{"model":"models/gemini-3-pro","tools":[{"x":"@"}]}', b"Invalid JSON payload"),
    ],
)
def test_a_body_that_is_not_utf8_is_not_json(path: str, raw: str, words: bytes) -> None:
    answer = send(simulator(), path, raw.encode().replace(b"@", b"\xed\xa0\x80"))
    assert answer.status == 400
    assert words in answer.body


class TestHalvesOfCharacters:
    @pytest.mark.parametrize("stream", [True, False])
    def test_in_models_and_texts(self, stream: bool) -> None:
        target = simulator()
        chat = {"model": "gpt-5.5" + HALF, "stream": stream, "messages": [{"role": "user", "content": HALF}]}
        for path, body in (
            ("/v1/messages", message(HALF, model="claude-" + HALF, stream=stream, stop_sequences=[HALF])),
            ("/v1/chat/completions", chat),
            ("/v1/responses", {"model": HALF, "stream": stream, "input": HALF, "prompt_cache_key": HALF}),
            (f"/v1beta/models/gemini-{HALF}:generateContent", {"contents": [{"parts": [{"text": HALF}]}]}),
        ):
            assert send(target, path, body).status == 200, path

    def test_in_the_name_of_a_tool_that_is_called(self) -> None:
        tool = {"name": HALF, "input_schema": {"type": "object"}}
        answer = send(simulator(CALLING), "/v1/messages", message(HALF, tools=[tool]))
        assert json.loads(answer.body)["content"][-1]["name"] == "?"

    def test_in_a_continued_response(self) -> None:
        target = simulator()
        first = json.loads(send(target, "/v1/responses", {"model": "gpt-5.5", "input": "one"}).body)["id"]
        body = {"model": "gpt-5.5", "input": "two", "previous_response_id": first, HALF: HALF}
        assert send(target, "/v1/responses", body).status == 200

    @pytest.mark.parametrize("path", ["/v1/models/", "/v1beta/models/", "/v1beta/cachedContents/", "/"])
    @pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", HALF])
    def test_in_paths_and_queries(self, path: str, method: str) -> None:
        send(simulator(), path + HALF, b"{}", method=method, pageSize=HALF, limit=HALF, updateMask=HALF)


class TestSchemas:
    """A tool's schema comes from the client, and the script makes an input for it."""

    @pytest.mark.parametrize(
        "property",
        [
            {"type": "number", "multipleOf": 1e-320, "minimum": 1e300},
            {"type": "integer", "minimum": 10**400},
            {"type": "integer", "exclusiveMinimum": 1e308, "multipleOf": 1e308},
            {"type": "string", "minLength": 1e300, "maxLength": 1e300},
            {"type": "array", "minItems": 1e308},
        ],
    )
    def test_bounds_beyond_all_numbers(self, property: dict[str, Any]) -> None:
        schema = json.dumps({"type": "object", "properties": {"a": property}, "required": ["a"]})
        assert list(fit(schema.encode())) == ["a"]

    @pytest.mark.parametrize(
        "schema",
        [
            {"required": ["a", "b", "c"], "properties": {key: {"$ref": "#"} for key in "abc"}},
            {"allOf": [{"$ref": "#"}, {"$ref": "#"}], "required": ["a"]},
        ],
    )
    def test_a_schema_that_holds_itself(self, schema: dict[str, Any]) -> None:
        assert _count(fit(json.dumps(schema).encode())) <= MOST_VALUES

    def test_a_schema_that_asks_for_millions(self) -> None:
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(4):
            schema = {"type": "array", "minItems": 100, "items": schema}
        whole = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        assert _count(fit(json.dumps(whole).encode())) <= MOST_VALUES + 1


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


class TestTheEndOfTheCalendar:
    LONG = "word " * 9_000

    @pytest.mark.parametrize(
        "end",
        [{"ttl": "9" * 400 + "s"}, {"ttl": "315576000000s"}, {"expireTime": "9999-12-31T23:59:59-14:00"}],
    )
    def test_contents_that_outlive_it(self, end: dict[str, str]) -> None:
        target = simulator()
        body = {"model": "models/gemini-3-pro", "contents": [{"parts": [{"text": self.LONG}]}]}
        assert send(target, "/v1beta/cachedContents", body | end).status == 400
        assert send(target, "/v1beta/cachedContents", body).status == 200
        assert send(target, "/v1beta/cachedContents", b"", method="GET").status == 200

    @pytest.mark.parametrize("seconds", [1e300, float("inf")])
    def test_a_clock_that_is_moved_beyond_it(self, seconds: float) -> None:
        target = Simulator(clock=VirtualClock())
        assert isinstance(target.clock, VirtualClock)
        with pytest.raises(HoldfastError, match="it ends with the year 9998"):
            target.clock.advance(seconds)
        assert send(target, "/v1/messages", message()).status == 200


class TestMemory:
    def test_what_a_client_says_is_not_kept_at_any_length(self) -> None:
        target = simulator()
        send(target, "/v1/messages", message(model="x" * 100_000))
        send(target, "/v1/" + "y" * 100_000, b"", method="GET")
        assert len(json.dumps(target.requests())) < 10_000

    def test_models_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those not used for longest are forgotten, with their entries."""
        monkeypatch.setattr(simulator_core, "_MOST_MODELS", 3)
        target = simulator()
        marked = [{"type": "text", "text": "word " * 9_000, "cache_control": {"type": "ephemeral"}}]
        for name in ("a", "b", "a", "c", "d"):
            send(target, "/v1/messages", message(model=f"claude-{name}", system=marked))
        assert sorted(entry["model"][-1] for entry in target.entries()) == ["a", "c", "d"]
