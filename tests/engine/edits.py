"""Bodies with edits in them: what the tests of replayed edits share."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from holdfast import facts
from holdfast.caches.prompts import Prompt
from holdfast.core.edits import EditRef
from holdfast.engine.edits import Load, Replacements, Replay, record, recorded, replay
from holdfast.engine.fallible_store import FallibleStore
from holdfast.store import SqliteStore
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.core.warm_pool import body_of, raw_of
from tests.properties.sessions import Talk

from .driver import Driver

MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai_chat": "openai:gpt-6.1-sol",
    "openai_responses": "openai:gpt-6.1-sol",
    "gemini": "gemini:gemini-2.5-pro",
}
assert {*MODELS} == {*DIALECTS} - {"openrouter"}, "a dialect without a model"
each_dialect = pytest.mark.parametrize("dialect", MODELS)
TEXT = "[the result was removed]"


def prompt_of(body: Body) -> Prompt:
    return PromptReader().read(body, facts.model(MODELS[body.dialect])).prompt


def body_for(said: Talk, dialect: str) -> Body:
    model = facts.model(MODELS[dialect])
    return body_of(raw_of(said, model, dialect), dialect, model.name)


def result_blocks(body: Body) -> list[int]:
    """The blocks of the body that answer tool calls."""
    kinds = ("tool_result", "function_call_output")
    dialect = DIALECTS[body.dialect]
    return [i for i, span in enumerate(body.blocks) if span.role == "tool" or dialect.kind(body, i) in kinds]


def shortened(body: Body, index: int, text: str = TEXT) -> bytes:
    """The block as it stands, saying less and without its marker."""
    value = json.loads(body.text(body.blocks[index]))
    if isinstance(value, str):
        return json.dumps(text).encode()
    if "functionResponse" in value:
        value["functionResponse"]["response"] = {"output": text}
    else:
        value["output" if "output" in value else "content"] = text
        value.pop("cache_control", None)
    return json.dumps(value).encode()


def digest_at(body: Body, index: int) -> bytes:
    prompt = prompt_of(body)
    origin = prompt.origin or range(len(prompt.blocks))
    return prompt.blocks[list(origin).index(index)].digest


def put(store: SqliteStore, digest: bytes, replacement: bytes, lane: str = "l") -> None:
    record(FallibleStore(store), "t", lane, digest, replacement, 1.0).result()


def send(body: Body, edits: Mapping[bytes, EditRef], load: Load) -> tuple[Body, Replay]:
    """The body as it goes out."""
    dialect = DIALECTS[body.dialect]
    done = replay(body, dialect, prompt_of(body), edits, load)
    return body_of(body.apply(done.splices), body.dialect, body.model), done


def through(store: SqliteStore, body: Body, lane: str = "l") -> tuple[Body, Replay]:
    """As it goes out when all that is known of the lane's edits comes from the store."""
    return send(body, recorded(FallibleStore(store), "t", lane), Replacements(FallibleStore(store)).of("t"))


def none(name: bytes) -> bytes | None:
    return None


def edit_of(driver: Driver, said: Talk, place: int = 0) -> tuple[bytes, bytes]:
    """An edit that shortens a result: the block it is of, and what stands there instead."""
    body = driver.body(said)
    index = result_blocks(body)[place]
    return digest_at(body, index), shortened(body, index)
