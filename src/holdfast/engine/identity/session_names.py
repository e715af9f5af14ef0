"""Sessions that requests name: by our own header, by what known clients send, by fields of the body.

Every entry gives its evidence. Headers that a known client sends once for each conversation are `sure`. The others
(`prompt_cache_key`, a user id, a header of unknown origin) may be shared by many conversations of one program, or by an
agent and its sub-agents: they name the session, and the prefix chain says which of its lanes it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.wire import Body

from ..lane import Lane

Headers = Mapping[str, str]
"""Headers by lower-case name; of a repeated one the first."""

_NAME = re.compile(r"[A-Za-z0-9._:@-]{1,128}").fullmatch
_MODEL = re.compile(r"[A-Za-z0-9._:@/~+-]{1,128}").fullmatch


class Identity(Struct, frozen=True):
    """Whom a request belongs to, and by what that was seen.

    A `side` request (a title, a quota check) gets no markers and leaves no trace in a lane. `scope` stands for the
    conversations among which its prefix chain was looked up; empty where its headers name the lane. `project` stands
    for the one it names. `shared` if its lane may be that of another conversation.
    """

    lane: Lane
    side: bool = False
    why: str = ""
    scope: bytes = b""
    project: bytes = b""
    shared: bool = False


def keyed(key: bytes, text: str) -> bytes:
    """Return a keyed digest, which reveals nothing without the key. BLAKE2b takes a key itself; with OpenSSL's HMAC a
    busy process would also pay for switching threads."""
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=32).digest()


def safe_name(key: bytes, text: str) -> str:
    """A session's or agent's name as it came, or a digest where it is too long or holds anything unusual."""
    return text if _NAME(text) else "x-" + keyed(key, text).hex()[:32]


def lane_id(key: bytes, session: str, middle: str, model: str) -> str:
    """The id of a lane. Session and agent hold no slash, so no two lanes are spelled alike."""
    return f"{session}/{middle}/{model if _MODEL(model) else 'x-' + keyed(key, model).hex()[:32]}"


_OLD_USER_ID = re.compile(r"_session_([0-9A-Za-z-]{8,64})$").search
_LONGEST_FIELD = 4_096  # bytes of a field that are looked into


class SessionName(Struct, frozen=True):
    """A session by name. `parent` is the session of the agent that started this one, `parent_agent` that agent, and
    nothing stands for the main one."""

    session: str
    why: str
    sure: bool = True
    agent: str = ""
    subagent: bool = False
    parent: str = ""
    parent_agent: str = ""


def named(headers: Headers, body: Body, client: str) -> SessionName | None:
    """The session a request names, with the agent it names; the first evidence counts."""
    own = headers.get("x-holdfast-session")
    session_name = None
    for source in _TELLING_AGENTS if own else _SOURCES:
        session_name = source(headers, body, client)
        if session_name is not None:
            break
    if not own:
        return session_name
    why = "header x-holdfast-session"
    if session_name is None or not session_name.subagent:
        return SessionName(own, why)
    agent = session_name.agent or session_name.session  # some give every sub-agent a session of its own
    return SessionName(own, why, agent=agent, subagent=True, parent=own, parent_agent=session_name.parent_agent)


def _claude_code(headers: Headers, body: Body, client: str) -> SessionName | None:
    session = headers.get("x-claude-code-session-id")
    if not session:
        return None
    agent = headers.get("x-claude-code-agent-id", "")
    why = "header x-claude-code-session-id"
    return SessionName(session, why, agent=agent, subagent=bool(agent), parent=session if agent else "")


def _codex(headers: Headers, body: Body, client: str) -> SessionName | None:
    """Name the session by its header; another thread than its first is a sub-agent with its parent."""
    session, thread = headers.get("session-id"), headers.get("thread-id", "")
    if not session or not (thread or client == "codex"):
        return None
    if thread in ("", session):
        return SessionName(session, "header session-id")
    starter = headers.get("x-codex-parent-thread-id", "")
    return SessionName(
        session,
        "headers session-id and thread-id",
        agent=thread,
        subagent=True,
        parent=session,
        parent_agent="" if starter in (session, thread) else starter,
    )


def _opencode(headers: Headers, body: Body, client: str) -> SessionName | None:
    """A sub-agent has a session of its own and names the one it was started from."""
    if client != "opencode" and "x-session-affinity" not in headers:
        return None
    session = headers.get("x-session-id") or headers.get("x-session-affinity")
    if not session:
        return None
    starter = headers.get("x-parent-session-id", "")
    starter = "" if starter == session else starter
    return SessionName(session, "header x-session-id", subagent=bool(starter), parent=starter)


def _pi(headers: Headers, body: Body, client: str) -> SessionName | None:
    """pi goes by its SDK's name; it sends the session's id in these two headers."""
    session = headers.get("session_id")
    if session and session == headers.get("x-client-request-id"):
        return SessionName(session, "header session_id")
    return None


def _conversation(headers: Headers, body: Body, client: str) -> SessionName | None:
    """A conversation that the provider keeps (Responses): its id names exactly that one."""
    if body.dialect != "openai_responses":
        return None
    value = _field(body, "conversation")
    id_ = value.get("id") if isinstance(value, dict) else value
    return SessionName(id_, "field conversation") if isinstance(id_, str) and id_ else None


def _other_headers(headers: Headers, body: Body, client: str) -> SessionName | None:
    for name in ("x-session-id", "session-id", "session_id"):
        if value := headers.get(name):
            return SessionName(value, f"header {name}", sure=False)
    return None


def _openai_fields(headers: Headers, body: Body, client: str) -> SessionName | None:
    if body.dialect not in ("openai_chat", "openai_responses", "openrouter"):
        return None
    for name in ("session_id", "prompt_cache_key"):
        value = _field(body, name)
        if isinstance(value, str) and value:
            return SessionName(value, f"field {name}", sure=False)
    return None


def _anthropic_user(headers: Headers, body: Body, client: str) -> SessionName | None:
    """Claude Code writes the session into the user's id: as JSON, or in its older form."""
    metadata = _field(body, "metadata") if body.dialect == "anthropic" else None
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return None
    if user.startswith("{"):
        inner = json_of(user.encode("utf-8", "surrogatepass"))
        session = inner.get("session_id") if isinstance(inner, dict) else None
    else:
        match = _OLD_USER_ID(user)
        session = match[1] if match else None
    return SessionName(session, "field metadata.user_id", sure=False) if isinstance(session, str) and session else None


_Source = Callable[[Headers, Body, str], SessionName | None]
_TELLING_AGENTS: tuple[_Source, ...] = (_claude_code, _codex, _opencode)
_SOURCES: tuple[_Source, ...] = (
    *_TELLING_AGENTS,
    _pi,
    _conversation,
    _other_headers,
    _openai_fields,
    _anthropic_user,
)


def previous_response(body: Body) -> str | None:
    """Return the response that a request continues (Responses): its body holds only what is new since then."""
    value = _field(body, "previous_response_id") if body.dialect == "openai_responses" else None
    return value if isinstance(value, str) and value else None


def _field(body: Body, name: str) -> Any:
    return json_of(body.member(name))


def json_of(raw: bytes | None) -> Any:
    """A short field's value; None where it cannot be read."""
    if raw is None or len(raw) > _LONGEST_FIELD:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
