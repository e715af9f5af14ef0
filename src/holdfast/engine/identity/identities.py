"""Whom requests belong to: the tenant by its credential, the lane by names or by the prefix chain.

What a request says of itself comes first: our own header, then what known clients send. A request without a name
belongs to the lane whose conversation it goes on with, and where that is not certain to a new one. Nothing is ever
looked up across tenants: the tenant is part of every name and of every digest.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import blake2b

from msgspec import Struct

from holdfast.records.events import Ulids
from holdfast.store import SUBSCRIPTION, Store, is_subscription
from holdfast.wire import Body, Reading

from ..lane import Lane
from . import records
from .accounts import Accounts, client_id, organisation_of
from .chains import SIZE, Chain, ChainReader
from .clients import client_of
from .credentials import credentials_of, is_login
from .lane_matcher import Care, LaneIndex, LaneMatch, LaneRecord
from .marks import shown_client
from .names_and_ids import Headers, Identity, keyed, lane_id, safe_name
from .session_names import SessionName, named, previous_response
from .side_requests import is_side

LOCAL = "local"
"""The tenant of requests without a credential."""

KEY = "t-"
"""How the tenants of providers' keys begin."""

MOST_TENANTS = 2_000
MOST_HEADS = 4_000
_MODELS = 8
_CHAINS = 8


def _none(_agent: str) -> Care:
    """Nothing of a lane stands in its later requests but what they say themselves."""
    return "none"


class _Who(Struct, frozen=True):
    """What a request says of its sender, in safe names; nothing where it says nothing."""

    tenant: str
    client: str
    agent: str
    session: str
    project: bytes
    shown: str = ""
    """The client's own name, where `client` is that of its SDK."""


class Identities:
    """Finds whom requests belong to and remembers what they sent. May be used from several threads.

    `key` keys every digest of what came from outside. With a store, lanes known by their chain survive a restart, and
    so do accounts whose login was renewed. `continues` says that such a one goes on as the tenant it was, with all that
    was put into its lanes: for a gateway that nobody but this machine's user reaches.
    """

    def __init__(self, key: bytes, *, store: Store | None = None, continues: bool = False) -> None:
        self._key = key
        self._accounts, self._continues = Accounts(key, store), continues
        self._store = store
        self._ulids = Ulids()
        self._lock = threading.Lock()
        self._lanes = LaneIndex()
        self._reader = ChainReader()
        self._tenants: OrderedDict[str, None] = OrderedDict()
        self._heads: OrderedDict[tuple[str, str, str], dict[str, str]] = OrderedDict()  # lanes by model
        self._chains: OrderedDict[int, tuple[Body, bytes, Chain]] = OrderedDict()  # of bodies on their way to `sent`

    def tenant(self, headers: Headers, query: str) -> str:
        """A keyed hash of the credential, the same wherever it stands in the request; `local` without one. That of a
        subscription's login says so; where it is known to be a renewed one, it may be that of the account's first."""
        found = credentials_of(headers, query)
        if not found:
            return LOCAL
        name = keyed(self._key, found[0] if len(found) == 1 else repr(sorted(found))).hex()[:32]
        if not is_login(headers):
            return KEY + name
        return self._accounts.first(SUBSCRIPTION + name) if self._continues else SUBSCRIPTION + name

    def before(self, tenant: str) -> str:
        """The tenant that a renewed login was before, where it does not go on as that one; else empty."""
        if self._continues or not is_subscription(tenant):
            return ""
        first = self._accounts.first(tenant)
        return "" if first == tenant else first

    def recognise(
        self, found: Identity, headers: Headers, body: Body, answer: Iterable[tuple[bytes, bytes]], now: float
    ) -> bool:
        """The provider has answered a login's request, with these headers. Says whether the login turned out to be a
        renewed one that has a tenant of its own, with one before it."""
        tenant = found.lane.tenant
        organisation = organisation_of(answer) if is_subscription(tenant) else ""
        if not organisation:
            return False
        client = client_id(headers, body, found.lane.client)
        linked = bool(client) and self._accounts.link(tenant, organisation, client, now)
        return linked and not self._continues

    def load(self, tenant: str, now: float) -> None:
        """Have a tenant's lanes at hand that are stored; only the first time there is anything to do."""
        with self._lock:
            self._load(tenant, now)

    def find(
        self,
        headers: Headers,
        query: str,
        body: Body,
        read: Callable[[], Reading],
        now: float,
        tenant: str | None = None,
        project: str = "",
        care: Callable[[str], Care] = _none,
    ) -> Identity:
        """Whom a request belongs to. `read` is called only where no name is certain; `tenant` is what `tenant()` said
        of the request, of whoever has asked already; `project` tells apart conversations that begin alike; `care` says
        what of a lane of an agent's stands in later requests, so that none is taken for another's."""
        client = client_of(headers)
        name = named(headers, body, client)
        agent = headers.get("x-holdfast-agent") or ("" if name is None else name.agent)
        if agent:
            agent = safe_name(self._key, agent)
        session = "" if name is None else safe_name(self._key, name.session)
        if tenant is None:
            tenant = self.tenant(headers, query)
        shown = shown_client(client, headers, body)
        who = _Who(tenant, client, agent, session, self._scope(project) if project else b"", shown)
        if is_side(client, body):
            return _beside(who)
        if name is not None and name.sure:
            return self._by_name(who, name, body.model)
        return self._by_chain(who, "" if name is None else name.why, headers, body, read, now, care(agent))

    def sent(self, found: Identity, body: Body, read: Callable[[], Reading], now: float) -> None:
        """The request goes out: later ones may go on with it."""
        lane = found.lane
        if found.side:
            return
        if not found.scope:
            with self._lock:
                self._remember_head(lane, body.model)
            return
        chain = None if previous_response(body) is not None else self._chain(body, found.scope, read)
        with self._lock:
            self._chains.pop(id(body), None)
            known = self._lanes.get(lane) or LaneRecord(lane, body.model, now, now, project=found.project)
            known.by_response = body.dialect == "openai_responses"
            known.shared |= found.shared
            for each in (*self._lanes.put(known, chain, now), known):
                self._save(each)

    def answered(self, found: Identity, response_id: str) -> None:
        """Its response has this id: a later request may name it (`previous_response_id`)."""
        if not found.scope:
            return
        with self._lock:
            known = self._lanes.get(found.lane)
            if known is not None and known.by_response:
                self._lanes.answered(known, (response_id,))
                self._save(known)

    def unanswered(self, found: Identity) -> None:
        """It was refused or broke off: if it opened a conversation, the same again is that request, sent again."""
        if not found.scope:
            return
        with self._lock:
            known = self._lanes.get(found.lane)
            if known is not None:
                known.unanswered = True

    # By name

    def _by_name(self, who: _Who, name: SessionName, model: str) -> Identity:
        id_ = lane_id(self._key, who.session, who.agent or "main", model)
        parent = self._parent(who.tenant, name, model) if name.parent else None
        lane = Lane(
            tenant=who.tenant,
            session=who.session,
            id=id_,
            client=who.shown,
            agent=who.agent,
            parent=None if parent == id_ else parent,
            subagent=name.subagent,
        )
        return Identity(lane, False, name.why)

    def _parent(self, tenant: str, name: SessionName, model: str) -> str | None:
        """The lane that started this one: of the same model, else its last; None where none was seen."""
        session = safe_name(self._key, name.parent)
        agent = safe_name(self._key, name.parent_agent) if name.parent_agent else ""
        place = (tenant, session, agent)
        with self._lock:
            if place not in self._heads and self._store is not None:
                self._load_heads(self._store, tenant, session)
            heads = self._heads.setdefault(place, {})
            if len(self._heads) > MOST_HEADS:
                self._heads.popitem(last=False)
            return heads.get(model) or next(reversed(heads.values()), None)

    def _remember_head(self, lane: Lane, model: str) -> None:
        place = (lane.tenant, lane.session, lane.agent)
        heads = self._heads.setdefault(place, {})
        self._heads.move_to_end(place)
        if model in heads and next(reversed(heads)) == model:
            return
        heads.pop(model, None)
        heads[model] = lane.id
        if len(heads) > _MODELS:
            del heads[next(iter(heads))]
        if len(self._heads) > MOST_HEADS:
            self._heads.popitem(last=False)

    def _load_heads(self, store: Store, tenant: str, session: str) -> None:
        """The lanes of a session that was here before a restart."""
        for row in records.lanes_of(store, tenant, session):
            parts = row.id.split("/", 2)
            if len(parts) == 3:
                lane = Lane(tenant=tenant, session=session, id=row.id, agent=row.agent or "")
                self._remember_head(lane, parts[2])

    # By chain

    def _by_chain(
        self,
        who: _Who,
        named_by: str,
        headers: Headers,
        body: Body,
        read: Callable[[], Reading],
        now: float,
        care: Care,
    ) -> Identity:
        scope = self._scope(who.tenant, who.client, body.dialect, body.model, who.agent, who.session)
        previous = previous_response(body)
        if previous is not None:
            match, why = self._after(who.tenant, previous, now), "field previous_response_id"
        else:
            chain = self._chain(body, scope, read)
            match, why = self._going_on(who, chain, now, retried=_is_retry(headers), care=care)
        session = who.session
        if match is not None:
            known = match.known
            mine = previous is None or care == "none" or not known.shared
            if known.model == body.model and known.lane.agent == who.agent and mine:
                return Identity(known.lane, why=why, scope=scope, shared=match.shared)
            session = known.lane.session  # it goes on from a response, with another model or agent
        return self._new(who, session, body.model, f"new, {named_by}" if named_by else "new", scope)

    def _after(self, tenant: str, response: str, now: float) -> LaneMatch | None:
        with self._lock:
            self._load(tenant, now)
            known = self._lanes.by_response(tenant, response)
            return None if known is None else LaneMatch(known)

    def _going_on(
        self, who: _Who, chain: Chain, now: float, *, retried: bool, care: Care
    ) -> tuple[LaneMatch | None, str]:
        with self._lock:
            self._load(who.tenant, now)
            if (match := self._lanes.match(chain, who.project, retried=retried, care=care)) is not None:
                return match, "prefix chain"
            return self._lanes.opening(chain, now, who.project, retried=retried, care=care), "resend"

    def _new(self, who: _Who, session: str, model: str, why: str, scope: bytes) -> Identity:
        """A new lane: in a session of its own, or beside the others of the session it names."""
        fresh = self._ulids.new()
        middle = who.agent or "main"
        if session:
            middle = f"{who.agent}.{fresh}" if who.agent else fresh
        id_ = lane_id(self._key, session or fresh, middle, model)
        lane = Lane(tenant=who.tenant, session=session or fresh, id=id_, client=who.shown, agent=who.agent)
        return Identity(lane, why=why, scope=scope, project=who.project)

    def _scope(self, *parts: str) -> bytes:
        text = repr(parts).encode("utf-8", "surrogatepass")
        return blake2b(text, key=self._key[:64], digest_size=SIZE).digest()

    def _chain(self, body: Body, scope: bytes, read: Callable[[], Reading]) -> Chain:
        """The body's chain; `find` and `sent` ask for the same one."""
        with self._lock:
            kept = self._chains.get(id(body))
        if kept is not None and kept[0] is body and kept[1] == scope:
            return kept[2]
        prompt = read().prompt
        with self._lock:
            chain = self._reader.read(prompt, scope)
            self._chains[id(body)] = (body, scope, chain)
            if len(self._chains) > _CHAINS:
                self._chains.popitem(last=False)
        return chain

    def _load(self, tenant: str, now: float) -> None:
        """A tenant that was not here lately: its lanes from the store."""
        if self._store is None:
            return
        if tenant not in self._tenants:
            for known in records.load(self._store, tenant, now):
                self._lanes.restore(known)
        self._tenants[tenant] = None
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > MOST_TENANTS:
            self._tenants.popitem(last=False)

    def _save(self, known: LaneRecord) -> None:
        if self._store is not None:
            records.save(self._store, known)


def _beside(who: _Who) -> Identity:
    """A side request. Those that name no session share one for each client: whose conversation they stand beside is not
    known."""
    session = who.session or f"{who.client or 'unknown'}-side"
    lane = Lane(tenant=who.tenant, session=session, id=f"{session}/side", client=who.shown, agent=who.agent)
    return Identity(lane, side=True, why="side request")


def _is_retry(headers: Headers) -> bool:
    """Whether the client says that it tries again, as the official SDKs do."""
    count = headers.get("x-stainless-retry-count", "")
    return count.isdigit() and count.strip("0") != ""
