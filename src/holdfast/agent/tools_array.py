"""When a session's tools array changes: before a request that pays for it, and never without its reason.

Between resets the array stays as it was sent. What discovery found is declared before the next request of the same turn
where the carrier is `redeclare`; what nobody used for long is demoted before the first request of a turn, where nothing
of the conversation is cached any more or where that pays (rule 5.5). Each change is in the log, with its reset
`tools_redeclared`, before it is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import facts
from holdfast.caches import Prompt, rules
from holdfast.records.events import SessionRedeclared
from holdfast.tools import Redeclared

from .contract import Watch
from .model_call import parsed
from .window.entries import to_json

if TYPE_CHECKING:
    from .session import Session

_LISTED = 10


def before_request(session: Session, *, turn: str | None, watch: Watch, first: bool) -> None:
    """Change the array for the next request where that is due; `first` says that it is the first of a turn."""
    if first and not session.resets.used and session.box.strip_problem:
        watch.notice(session.box.strip_problem)
    changed = session.box.declare_found()
    if changed is None and first:
        changed = _demoted(session)
    record(session, changed, turn)
    if changed is not None and changed.demoted:
        watch.notice(_notice(changed, session.settings.tools.lifecycle.demote_after_turns))


def record(session: Session, changed: Redeclared | None, turn: str | None = None) -> None:
    """Keep another array in the log, if it is another one: the next process declares the same. Where it cannot be
    written, it is before the next request: none declares it without its reason."""
    session.redeclared = session.redeclared or changed is not None
    if session.redeclared:
        tools = to_json(session.box.definitions())
        session.keep_state(SessionRedeclared(tools=tools, model=session.model), turn=turn)
        session.redeclared = False


def _demoted(session: Session) -> Redeclared | None:
    """Demote unused tools, if the conversation is written again anyway or if it pays."""
    if session.settings.cache.edits == "never":  # what was sent stays as it is until the next reset
        return None
    engine, lane, now = session.engine, session.lane, session.clock()
    if engine.ledger(lane, now=now).last is None:  # a sub-agent's or a fork's first one reads another lane's entries
        return None
    live = engine.fence(lane, now=now)
    if not live:
        return session.box.at_reset(None)
    if not session.box.toolset.unused:
        return None
    body = parsed(session, session.request())
    behind = _rewritten_tokens(session, engine.read(body).prompt, live)
    return session.box.demote(behind=behind, requests=engine.remaining(lane, body, now=now))


def _rewritten_tokens(session: Session, prompt: Prompt, live: int) -> int:
    """Tokens that are cached and would be written again: all of them, unless the cache matches token by token and
    something stands before the first tool that goes."""
    tools = [index for index, block in enumerate(prompt.blocks) if block.section == "tools"]
    names, unused = session.box.toolset.declared, session.box.toolset.unused
    demoted = [tools[number] for number, name in enumerate(names) if name in unused and len(tools) >= len(names)]
    by_token = rules(facts.model(prompt.model)).by_token
    first = min(demoted or tools, default=0) if by_token else 0
    end = min(live, len(prompt.blocks))
    before = prompt.ends[first - 1] if first else 0
    return max(0, prompt.ends[end - 1] - before - sum(prompt.blocks[index].tokens for index in demoted if index < end))


def _notice(changed: Redeclared, turns: int) -> str:
    names = [name for name, _ in changed.demoted]
    listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    return f"Not used for {turns} turns and no longer declared: {listed}. The agent finds them when it needs them."
