"""skill_search and skill_load: how an agent finds skills and reads one.

Both only read. The session's registry decides the result of a load; its event is emitted with the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from holdfast.core import skill_heading
from holdfast.records import Text, ToolUse
from holdfast.records.events import LoadReason, SkillLoaded
from holdfast.tools import (
    CALL_TOOL,
    SKILL_LOAD,
    RefusedCall,
    Tool,
    ToolContext,
    ToolExecutionError,
    ToolOutput,
    input_of,
    mend,
    schema,
    shown,
    text,
    unwrapped,
    whole,
)

from .activation import Activation, Given
from .index import indexed, one_line
from .skill import Skill
from .skill_file import files_of, named

if TYPE_CHECKING:
    from .session import SessionSkills

SKILL_SEARCH = "skill_search"

UNCONFIGURED = "skills are not configured for this session"
UNKNOWN = "no skill registered with name '{name}'"
MATCHES = "Skills matching '{query}' ({number}):"
MATCH = "- {name} [{source}] — {description}"
NO_MATCHES = "No skills match '{query}'."
POINTERS: Mapping[Given, str] = {
    "already_preloaded": (
        "This skill's body is already loaded in the system prompt (pre-activated at session start). "
        'Re-read the system prompt section "# Skill: {name}" for its operating instructions.'
    ),
    "already_loaded": (
        "This skill's body is already in this conversation, loaded earlier in the session. "
        "Re-read that result for its operating instructions."
    ),
}

_SEARCH = "Find skills by words of their names and descriptions. An empty query lists them by name."
_LOAD = (
    "Read a skill's instructions, then follow them. Also says where the skill's files are: use read_file and "
    "run_command for those."
)
FILES = "Files of this skill are in {place}: {names}."
_MOST_FILES = 50


async def _search(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    query = str(input["query"]).strip()
    skills = _session(context).store.search(query, limit=int(input.get("limit", 10)))
    shown_query = shown(one_line(query))
    lines = [MATCHES.format(query=shown_query, number=len(skills)) if skills else NO_MATCHES.format(query=shown_query)]
    lines += [
        MATCH.format(name=each.name, source=each.source, description=indexed(each.description)) for each in skills
    ]
    names = [each.name for each in skills]
    return ToolOutput(
        content="\n".join(lines), metadata={"query": query, "result_count": len(skills), "result_names": names}
    )


async def _load(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    session, name = _session(context), str(input["name"])
    skill, registry = session.store.get(name), session.registry
    active = registry.active(name) if skill is None else registry.load(skill, context.tool_use_id)
    if active is None:
        raise ToolExecutionError(UNKNOWN.format(name=shown(name)))
    status, activation = active
    if status == "body" and skill is not None:
        event = loaded_event(activation, "on_demand")
        content = (Text(mend(skill.section)), *_files(skill, context))
        return ToolOutput(content=content, metadata=_metadata(activation), events=(event,))
    pointer = Text(
        f"{skill_heading(activation.name, activation.source)}\n\n{POINTERS[status].format(name=activation.name)}"
    )
    files = _files(skill, context) if skill is not None and status == "already_preloaded" else ()
    return ToolOutput(content=(pointer, *files), metadata={**_metadata(activation), status: True})


def _files(skill: Skill, context: ToolContext) -> tuple[Text, ...]:
    """Return the files that a body may refer to, in a block of its own: the body is unchanged, and names files relative
    to a directory that it does not know."""
    names = [shown(named(path, skill.skill_dir)) for path in files_of(skill.skill_dir)]
    if not names:
        return ()
    more = f" and {len(names) - _MOST_FILES} more" if len(names) > _MOST_FILES else ""
    return (Text(FILES.format(place=_place(skill, context), names=", ".join(names[:_MOST_FILES]) + more)),)


def _place(skill: Skill, context: ToolContext) -> str:
    """As the other tools take it, and with no more of this machine's paths than is needed."""
    place = context.workspace.relative(skill.skill_dir)
    with suppress(ValueError, RuntimeError):  # elsewhere, or there is no home
        place = f"~/{PurePath(place).relative_to(Path.home()).as_posix()}"
    return shown(place)


def requested_skill(call: ToolUse) -> str | None:
    """The name of the skill that a call is to load, also by way of call_tool."""
    if call.name not in (SKILL_LOAD, CALL_TOOL):
        return None
    target = (SKILL_LOAD, input_of(call)) if call.name == SKILL_LOAD else unwrapped(call)
    if isinstance(target, RefusedCall) or target[0] != SKILL_LOAD or isinstance(target[1], RefusedCall):
        return None
    return str(target[1].get("name", ""))


def loaded_event(activation: Activation, why: LoadReason) -> SkillLoaded:
    """Return the event for a body that is now in the prompt."""
    return SkillLoaded(
        skill_id=activation.name,
        skill_version=activation.version,
        load_reason=why,
        load_size_tokens=activation.tokens,
        source=activation.source,
        triggered_by_tool_use_id=activation.tool_use_id,
    )


def _metadata(activation: Activation) -> dict[str, Any]:
    return {
        "skill_id": activation.name,
        "skill_version": activation.version,
        "source": activation.source,
        "load_size_tokens": activation.tokens,
    }


def _session(context: ToolContext) -> SessionSkills:
    if context.skills is None:
        raise ToolExecutionError(UNCONFIGURED)
    session: SessionSkills = context.skills
    return session


SKILL_TOOLS = (
    Tool(
        name=SKILL_SEARCH,
        description=_SEARCH,
        run=_search,
        effect="read",
        input_schema=schema({"query": text()}, {"limit": whole(minimum=1, maximum=50, default=10)}),
        source="builtin",
        core=True,
    ),
    Tool(
        name=SKILL_LOAD,
        description=_LOAD,
        run=_load,
        effect="read",
        input_schema=schema({"name": text(minLength=1, maxLength=64)}),
        source="builtin",
        core=True,
    ),
)
