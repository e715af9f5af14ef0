"""Tools of a host: one that answers, one that fails, one that says a lot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.tools import Tool, ToolContext, ToolExecutionError, ToolOutput
from tests.agent.summaries import PART


async def _long(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content=PART)


LONG = Tool(name="long", description="Says a lot.", run=_long, effect="read")


async def _echo(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content=f"echo {input.get('n')}")


async def _fail(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    raise ToolExecutionError("the printer is on fire")


ECHO = Tool(name="echo", description="Says it again.", run=_echo, effect="read")


FAIL = Tool(name="fail", description="Fails.", run=_fail, effect="read")
