"""Which login tokens belong to one account: a token is renewed every few hours, and the account goes on.

Two tokens are of one account if the provider's own answers name the same organisation for both and the client names
itself by the same stable id. Neither counts alone: what a request says of itself anybody can say. Kept are keyed
digests, never a token and never an id.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable

from holdfast.errors import HoldfastError
from holdfast.notices import warn_once
from holdfast.store import Store
from holdfast.wire import Body

from .names_and_ids import Headers, keyed
from .session_names import json_of, named

ORGANISATION = (b"anthropic-organization-id", b"openai-organization")
"""Headers in which providers say whose a request was."""

MOST = 4_000
"""Links and tokens in memory; others are looked up again."""

_HOPS = 8  # from token to token, where two accounts turned out to be one
_PROBLEMS = (HoldfastError, sqlite3.Error, OSError, RuntimeError)
_log = logging.getLogger(__name__)


def organisation_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The organisation that an answer names; empty where it names none."""
    for name, value in headers:
        if name.lower() in ORGANISATION and value.strip():
            return f"{name.decode('latin-1').lower()} {value.decode('latin-1').strip()}"
    return ""


def client_id(headers: Headers, body: Body, client: str) -> str:
    """What a client calls itself by, whatever its token: device and account where it names both, else its session."""
    metadata = json_of(body.member("metadata")) if body.dialect == "anthropic" else None
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str):
        inner = json_of(user.encode("utf-8", "surrogatepass")) if user.startswith("{") else None
        if isinstance(inner, dict):
            device, account = inner.get("device_id"), inner.get("account_uuid")
            if isinstance(device, str) and isinstance(account, str) and device and account:
                return repr(("account", device, account))
        device, _, rest = user.partition("_account_")
        account = rest.partition("_session_")[0]
        if device and account:
            return repr(("account", device, account))
    name = named(headers, body, client)
    return repr(("session", name.session)) if name is not None and name.sure else ""


class Accounts:
    """The tenants of login tokens by the account they belong to. May be used from several threads."""

    def __init__(self, key: bytes, store: Store | None) -> None:
        self._key, self._store = key, store
        self._lock = threading.Lock()
        self._known: OrderedDict[str, str] = OrderedDict()  # tenants by link and by token; empty where there is none
        self._linked: OrderedDict[tuple[str, str], None] = OrderedDict()

    def first(self, tenant: str) -> str:
        """The tenant that the account of a token was known as first; the token's own where it is not linked."""
        with self._lock:
            return self._first(tenant)

    def link(self, tenant: str, organisation: str, client: str, now: float) -> bool:
        """A token's request was answered for this organisation and came from this client. Says whether it turned out to
        be of an account that was known by another token."""
        name = "l-" + keyed(self._key, repr((organisation, client))).hex()[:32]
        with self._lock:
            if (tenant, name) in self._linked:
                return False
            self._linked[tenant, name] = None
            if len(self._linked) > MOST:
                self._linked.popitem(last=False)
            mine, theirs = self._first(tenant), self._find(name)
            known = self._first(theirs) if theirs else ""
            if not known:
                self._put(name, mine, now)
                return False
            if known == mine:
                return False
            self._put(mine, known, now)
            return True

    def _first(self, tenant: str) -> str:
        for _ in range(_HOPS):
            before = self._find(tenant)
            if not before:
                break
            tenant = before
        return tenant

    def _find(self, name: str) -> str:
        found = self._known.get(name)
        if found is None:
            try:
                found = "" if self._store is None else self._store.account(name) or ""
            except _PROBLEMS as error:
                warn_once(_log, "renewed logins are not recognised: %s", error)
                return ""
            self._remember(name, found)
        return found

    def _put(self, name: str, tenant: str, now: float) -> None:
        self._remember(name, tenant)
        if self._store is None:
            return
        try:
            self._store.put_account(name, tenant, at=round(now * 1e6))
        except _PROBLEMS as error:
            warn_once(_log, "a renewed login will not be recognised after a restart: %s", error)

    def _remember(self, name: str, tenant: str) -> None:
        self._known[name] = tenant
        self._known.move_to_end(name)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
