"""The reply as the next request will send it back: what caches that keep generated tokens remember."""

from __future__ import annotations

from holdfast.caches import Block, rules
from holdfast.facts import ModelFacts
from holdfast.records import Block as Part
from holdfast.records import Message, Request, Text, ToolUse
from holdfast.wire import DIALECTS, Body, PromptReader

from .messages import Reply, ToolCall, Words


def sent_back(body: Body, reply: Reply, model: ModelFacts, reader: PromptReader) -> tuple[Block, ...]:
    """The assistant message a client makes of this reply, as blocks of a prompt."""
    content: list[Part] = [Text(part.text) for part in reply.parts if isinstance(part, Words)]
    content += [ToolUse(part.id, part.name, part.input) for part in reply.parts if isinstance(part, ToolCall)]
    if not content or not rules(model).keeps_output:
        return ()
    dialect = DIALECTS[body.dialect]
    request = Request(model=model.ref, messages=(Message("assistant", tuple(content)),), output_limit=1)
    parsed = dialect.parse(dialect.encode(request), model=body.model)
    assert isinstance(parsed, Body)  # our own encoding
    return reader.read(parsed, model).prompt.blocks
