"""Who a divergent block belongs to, as far as a request tells: host, tools, the skills' index, a skill or a tool by its
name, user, assistant."""

from __future__ import annotations

import re

from holdfast.core import Finding, is_result
from holdfast.core.cures import Case, Cure, skill_owner
from holdfast.records import ToolUse
from holdfast.wire import DIALECTS, Body

from .lane import PreparedCall

_answers = re.compile(rb'"(?:tool_use_id|tool_call_id|call_id)"\s*:\s*"([^"\\]{1,256})"').search
_response = re.compile(rb'"function_?[Rr]esponse"\s*:\s*\{[^{}]*?"name"\s*:\s*"([^"\\]{1,128})"').search


def owner_of(prepared: PreparedCall, finding: Finding, told: Case, cure: Cure) -> str | None:
    """`told` and `cure` are what is known of the texts at the divergence: a system text has parts of several owners."""
    divergence, prompt = finding.divergence, prepared.core.prompt
    if (skills := skill_owner(told, cure)) is not None:
        return skills
    if divergence is not None and divergence.setting is not None:
        return "host"
    if divergence is None or divergence.block >= len(prompt.blocks):
        return None
    block = prompt.blocks[divergence.block]
    if block.section != "messages":
        return "tools" if block.section == "tools" else "host"
    if not is_result(block.kind, block.role):
        return block.role or "user"
    name = _tool(prepared.sent, prompt.place(divergence.block))
    return "tool" if name is None else f"tool:{name}"


def _tool(body: Body, index: int) -> str | None:
    """The name of the tool that a result is of: from the call that it answers."""
    span = body.blocks[index]
    text = body.text(span) + b"".join(body.raw[start:end] for start, end in span.context)
    if (named := _response(text)) is not None:
        return named[1].decode("utf-8", "replace")
    answered = _answers(text)
    if answered is None:
        return None
    call = answered[1].decode("utf-8", "replace")
    said = (block for message in DIALECTS[body.dialect].decode(body).messages for block in message.content)
    return next((block.name for block in said if isinstance(block, ToolUse) and block.id == call), None)
