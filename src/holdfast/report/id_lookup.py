"""From what a person typed to one session or one call: whole ids, or beginnings that fit only one."""

from __future__ import annotations

import difflib
from typing import Literal

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.wording import printable

Kind = Literal["session", "call"]

_RECENT = 200
_NAMED = 4


class UnknownIdError(HoldfastError):
    """No session or call is called that, or more than one."""


class IdMatch(Struct, frozen=True):
    kind: Kind
    tenant: str
    id: str


def find(store: Store, text: str, *, kind: Kind | None = None, tenant: str | None = None) -> IdMatch:
    """The session or call with this id, or the only one whose id begins with it; a whole id wins."""
    matches = _candidates(store, text, kind, tenant) if text else []
    whole = [each for each in matches if each.id == text]
    chosen = whole or matches
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise UnknownIdError(_nothing(store, text, kind, tenant))
    if len({(each.kind, each.id) for each in chosen}) == 1:
        if (first := _of_one_account(store, chosen)) is not None:
            return first
        tenants = ", ".join(_short(each.tenant) for each in chosen[:_NAMED])
        raise UnknownIdError(
            f"several tenants have the {chosen[0].kind} {_short(chosen[0].id)!r} ({tenants}); say which with --tenant"
        )
    names = ", ".join(f"{each.kind} {_short(each.id)}" for each in chosen[:_NAMED])
    names += ", …" if len(chosen) > _NAMED else ""
    raise UnknownIdError(f"{_short(text)!r} fits more than one id ({names}); give more of its characters")


def _of_one_account(store: Store, matches: list[IdMatch]) -> IdMatch | None:
    """Where tokens of one account have the same session, that of the token that was first: a renewed one may have sent
    a request before it was known whose it is. None where they are not of one account."""
    try:
        firsts = {store.account(each.tenant) or each.tenant for each in matches}
    except HoldfastError:  # a store of an older release, to which nothing was written yet
        return None
    return next((each for each in matches if {each.tenant} == firsts), None)


def find_tenant(store: Store, text: str, *, events: bool = False) -> str:
    """The tenant with this id, or the only one whose id begins with it, of those that have calls; with `events` also of
    those that have only events."""
    tenants = store.active_tenants(events=events)
    matches = [text] if text in tenants else [each for each in tenants if each.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(map(_short, (matches or tenants)[:_NAMED])) or "none yet"
    problem = "fits more than one tenant" if matches else f"is no tenant that has calls{' or events' if events else ''}"
    raise UnknownIdError(f"{_short(text)!r} {problem}; there are {names}")


def _candidates(store: Store, text: str, kind: Kind | None, tenant: str | None) -> list[IdMatch]:
    matches: list[IdMatch] = []
    if kind != "call":
        sessions = store.active_sessions(tenant, prefix=text, limit=_RECENT)
        matches += [IdMatch("session", each.tenant, each.session) for each in sessions]
    if kind != "session":
        matches += [IdMatch("call", owner, id_) for owner, id_ in store.call_ids(text, tenant, limit=_NAMED + 1)]
    return matches


def _nothing(store: Store, text: str, kind: Kind | None, tenant: str | None) -> str:
    noun = kind or "session or call"
    recent = [each.session for each in store.active_sessions(tenant, limit=_RECENT)]
    close = difflib.get_close_matches(text[:128], recent, n=2, cutoff=0.7) if kind != "call" else []
    hint = f"did you mean {' or '.join(map(_short, close))}? " if close else ""
    return f"there is no {noun} {_short(text)!r}; {hint}`holdfast sessions` lists what there is"


def _short(text: str) -> str:
    """Return a name from a client, printable and short enough for a sentence."""
    text = printable(text)
    return text if len(text) <= 128 else text[:127] + "…"
