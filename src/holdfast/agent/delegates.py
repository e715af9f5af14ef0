"""Sub-agents: the `delegate` tool.

A sub-agent is a session of its own that begins with its parent's tools, system text and surroundings, byte for byte, so
that they share one cached prefix. Its role and task are its first message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.tools import Tool, ToolContext, ToolExecutionError, ToolOutput, flag, schema, text

from .contract import Task
from .delegation import texts
from .delegation.crew import MOST

if TYPE_CHECKING:
    from .session import Session

NAME = "delegate"
_DESCRIPTION = (
    "Give tasks to sub-agents, which work side by side and report back. They see nothing of this conversation, so a "
    "task says everything: goal, paths, limits, and what the report should hold. A sub-agent that asked a question "
    "goes on with `resume`, its id, and the answer as `task`."
)
_TASK = {
    "type": "object",
    "properties": {
        "task": text("What is to be done, or the answer to a question", minLength=1),
        "role": text("As whom it works, in a word or two, such as reviewer"),
        "resume": text("The id of a sub-agent that goes on"),
    },
    "required": ["task"],
    "additionalProperties": False,
}
_TASKS = {"type": "array", "items": _TASK, "minItems": 1, "maxItems": MOST}
_WAIT = "False: go on at once; their reports come later, together. Default true"
_SLACK_S = 60.0


def delegate_tool(session: Session) -> Tool:
    """The tool of a session. Its definition is the same for all: a sub-agent that may not delegate is told so when it
    tries. It changes nothing itself, and what sub-agents change is confirmed call by call; were it to count as
    changing something, they would wait for their parent for ever."""

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        watch, cancel = session.watching
        wait = bool(input.get("wait", True))
        tasks = [_task(each) for each in input["tasks"]]
        try:
            results = await session.crew.run(
                tasks, awaited=wait, watch=watch, cancel=cancel, tool=tool, turn=context.turn
            )
        except HoldfastError as problem:
            raise ToolExecutionError(str(problem)) from problem
        metadata = {"delegates": [each.id for each in results], "statuses": [each.status for each in results]}
        return ToolOutput(content=texts.results(results) if wait else texts.started(results), metadata=metadata)

    tool = Tool(
        name=NAME,
        description=_DESCRIPTION,
        run=run,
        effect="none",
        input_schema=schema({"tasks": _TASKS}, {"wait": flag(_WAIT)}),
        source="builtin",
        core=True,
        confirm=False,
        timeout_s=session.settings.agent.delegates.timeout_s * MOST + _SLACK_S,  # at worst one after the other
    )
    return tool


def _task(input_: Mapping[str, Any]) -> Task:
    role = str(input_.get("role") or "").strip()
    resume = str(input_.get("resume") or "").strip() or None
    return Task(task=input_["task"], role=role or Task(task="").role, resume=resume)
