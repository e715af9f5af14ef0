"""The owners of requests: the tenant by its credential, the lane by names or by the prefix chain.

Names in a request come first: our own header, then those that known clients send. A request without a name belongs to
the lane whose conversation it continues, and if that is uncertain to a new one. Nothing is ever looked up across
tenants: the tenant is part of every name and of every digest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from hashlib import blake2b

from msgspec import Struct

from holdfast.lru import LRU
from holdfast.records.events import Ulids
from holdfast.store import SUBSCRIPTION, Store, is_subscription
from holdfast.wire import Body, Reading

from ..lane import Lane
from . import lane_store
from .accounts import Accounts, client_id, credentials_of, is_login, organisation_of
from .clients import client_of, is_side, shown_client
from .continuation import SIZE, Chain, ChainReader
from .lane_index import Care, LaneIndex, LaneMatch, LaneQuery, LaneRecord
from .session_names import Headers, Identity, SessionName, keyed, lane_id, named, previous_response, safe_name

LOCAL = "local"
"""The tenant of requests without a credential."""

KEY = "t-"
"""How the tenants of providers' keys begin."""

MOST_TENANTS = 2_000
MOST_HEADS = 4_000
_MODELS = 8
_CHAINS = 8


def _none(_agent: str) -> Care:
    """Return the care "none": later requests contain nothing else of a lane."""
    return "none"


class RequestSource(Struct, frozen=True):
    """The parts of a request that identify its sender."""

    headers: Headers
    query: str
    body: Body
    read: Callable[[], Reading]  # called only where no name is certain
    tenant: str | None = None  # what `Identities.tenant` said of it, if that was asked already
    project: str = ""  # tells apart conversations that begin alike
    care: Callable[[str], Care] = _none  # what of a lane of an agent's stands in later requests


class _Sender(Struct, frozen=True):
    """Who sent a request, in safe names; nothing where it does not say."""

    tenant: str
    client: str
    agent: str
    session: str
    project: bytes
    shown: str = ""  # the client's own name, where `client` is that of its SDK


class Identities:
    """Finds the owners of requests and remembers what they sent. Thread-safe.

    `key` keys every digest of external data. With a store, lanes known by their chain survive a restart, and so do
    accounts with a renewed login. With `continues` such an account stays the same tenant, with everything put into its
    lanes: for a gateway that only this machine's user can reach.
    """

    def __init__(self, key: bytes, *, store: Store | None = None, continues: bool = False) -> None:
        self._key = key
        self._accounts, self._continues = Accounts(key, store), continues
        self.store = store
        self._ulids = Ulids()
        self._lock = threading.Lock()
        self.lanes = LaneIndex()
        self._reader = ChainReader()
        self.tenants: LRU[str, None] = LRU(MOST_TENANTS)
        self.heads: LRU[tuple[str, str, str], LRU[str, str]] = LRU(MOST_HEADS)  # lanes by model
        self.chains: LRU[int, tuple[Body, bytes, Chain]] = LRU(_CHAINS)  # of bodies on their way to `sent`

    def tenant(self, headers: Headers, query: str) -> str:
        """Return a keyed hash of the credential, the same wherever it is in the request; `local` without one. A
        subscription's login has a prefix; a known renewed one may get the hash of the account's first."""
        credentials = credentials_of(headers, query)
        if not credentials:
            return LOCAL
        whole = credentials[0] if len(credentials) == 1 else repr(sorted(credentials))
        name = keyed(self._key, whole).hex()[:32]
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
        self, identity: Identity, headers: Headers, body: Body, answer: Iterable[tuple[bytes, bytes]], now: float
    ) -> bool:
        """The provider has answered a login's request, with these headers. Says whether the login turned out to be a
        renewed one that has a tenant of its own, with one before it."""
        tenant = identity.lane.tenant
        organisation = organisation_of(answer) if is_subscription(tenant) else ""
        if not organisation:
            return False
        client = client_id(headers, body, identity.lane.client)
        linked = bool(client) and self._accounts.link(tenant, organisation, client, now)
        return linked and not self._continues

    def load(self, tenant: str, now: float) -> None:
        """Have a tenant's lanes at hand that are stored; only the first time there is anything to do."""
        with self._lock:
            self._load(tenant, now)

    def find(self, source: RequestSource, now: float) -> Identity:
        """Whom a request belongs to."""
        headers, body = source.headers, source.body
        client = client_of(headers)
        name = named(headers, body, client)
        agent = headers.get("x-holdfast-agent") or ("" if name is None else name.agent)
        sender = _Sender(
            tenant=self.tenant(headers, source.query) if source.tenant is None else source.tenant,
            client=client,
            agent=safe_name(self._key, agent) if agent else "",
            session="" if name is None else safe_name(self._key, name.session),
            project=self._scope(source.project) if source.project else b"",
            shown=shown_client(client, headers, body),
        )
        if is_side(client, body):
            return _side_identity(sender)
        if name is not None and name.sure:
            return self._by_name(sender, name, body.model)
        return self._by_chain(sender, "" if name is None else name.why, source, now)

    def sent(self, identity: Identity, body: Body, read: Callable[[], Reading], now: float) -> None:
        """The request goes out: later ones may continue it."""
        lane = identity.lane
        if identity.side:
            return
        if not identity.scope:
            with self._lock:
                self._remember_head(lane, body.model)
            return
        chain = None if previous_response(body) is not None else self._chain(body, identity.scope, read)
        with self._lock:
            self.chains.pop(id(body), None)
            record = self.lanes.get(lane) or LaneRecord(lane, body.model, now, now, project=identity.project)
            record.by_response = body.dialect == "openai_responses"
            record.shared |= identity.shared
            for each in (*self.lanes.put(record, chain, now), record):
                self._save(each)

    def answered(self, identity: Identity, response_id: str) -> None:
        """Its response has this id: a later request may name it (`previous_response_id`)."""
        if not identity.scope:
            return
        with self._lock:
            record = self.lanes.get(identity.lane)
            if record is not None and record.by_response:
                self.lanes.answered(record, (response_id,))
                self._save(record)

    def unanswered(self, identity: Identity) -> None:
        """It was refused or broke off: if it opened a conversation, the same again is that request, sent again."""
        if not identity.scope:
            return
        with self._lock:
            record = self.lanes.get(identity.lane)
            if record is not None:
                record.unanswered = True

    # By name

    def _by_name(self, sender: _Sender, name: SessionName, model: str) -> Identity:
        id_ = lane_id(self._key, sender.session, sender.agent or "main", model)
        parent = self._parent(sender.tenant, name, model) if name.parent else None
        lane = Lane(
            tenant=sender.tenant,
            session=sender.session,
            id=id_,
            client=sender.shown,
            agent=sender.agent,
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
            if place not in self.heads and self.store is not None:
                self._load_heads(self.store, tenant, session)
            heads = self.heads.setdefault(place, LRU(_MODELS))
            return heads.peek(model) or next(reversed([*heads.values()]), None)

    def _remember_head(self, lane: Lane, model: str) -> None:
        place = (lane.tenant, lane.session, lane.agent)
        heads = self.heads.get(place)
        if heads is None:
            heads = self.heads[place] = LRU(_MODELS)
        heads[model] = lane.id

    def _load_heads(self, store: Store, tenant: str, session: str) -> None:
        """The lanes of a session that was here before a restart."""
        for row in lane_store.lanes_of(store, tenant, session):
            parts = row.id.split("/", 2)
            if len(parts) == 3:
                lane = Lane(tenant=tenant, session=session, id=row.id, agent=row.agent or "")
                self._remember_head(lane, parts[2])

    # By chain

    def _by_chain(self, sender: _Sender, named_by: str, source: RequestSource, now: float) -> Identity:
        body, care = source.body, source.care(sender.agent)
        scope = self._scope(sender.tenant, sender.client, body.dialect, body.model, sender.agent, sender.session)
        previous = previous_response(body)
        if previous is not None:
            match, why = self._after(sender.tenant, previous, now), "field previous_response_id"
        else:
            chain = self._chain(body, scope, source.read)
            query = LaneQuery(chain, sender.project, _is_retry(source.headers), care)
            match, why = self._continued(sender.tenant, query, now)
        session = sender.session
        if match is not None:
            record = match.record
            mine = previous is None or care == "none" or not record.shared
            if record.model == body.model and record.lane.agent == sender.agent and mine:
                return Identity(record.lane, why=why, scope=scope, shared=match.shared)
            session = record.lane.session  # it goes on from a response, with another model or agent
        return self._new(sender, session, body.model, f"new, {named_by}" if named_by else "new", scope)

    def _after(self, tenant: str, response: str, now: float) -> LaneMatch | None:
        with self._lock:
            self._load(tenant, now)
            record = self.lanes.by_response(tenant, response)
            return None if record is None else LaneMatch(record)

    def _continued(self, tenant: str, query: LaneQuery, now: float) -> tuple[LaneMatch | None, str]:
        with self._lock:
            self._load(tenant, now)
            if (match := self.lanes.match(query)) is not None:
                return match, "prefix chain"
            return self.lanes.opening(query, now), "resend"

    def _new(self, sender: _Sender, session: str, model: str, why: str, scope: bytes) -> Identity:
        """A new lane: in a session of its own, or beside the others of the session it names."""
        fresh = self._ulids.new()
        middle = sender.agent or "main"
        if session:
            middle = f"{sender.agent}.{fresh}" if sender.agent else fresh
        id_ = lane_id(self._key, session or fresh, middle, model)
        lane = Lane(tenant=sender.tenant, session=session or fresh, id=id_, client=sender.shown, agent=sender.agent)
        return Identity(lane, why=why, scope=scope, project=sender.project)

    def _scope(self, *parts: str) -> bytes:
        text = repr(parts).encode("utf-8", "surrogatepass")
        return blake2b(text, key=self._key[:64], digest_size=SIZE).digest()

    def _chain(self, body: Body, scope: bytes, read: Callable[[], Reading]) -> Chain:
        """The body's chain; `find` and `sent` ask for the same one."""
        with self._lock:
            kept = self.chains.get(id(body))
        if kept is not None and kept[0] is body and kept[1] == scope:
            return kept[2]
        prompt = read().prompt
        with self._lock:
            chain = self._reader.read(prompt, scope)
            self.chains[id(body)] = (body, scope, chain)
        return chain

    def _load(self, tenant: str, now: float) -> None:
        """Restore a tenant's lanes from the store, if it was not here lately."""
        if self.store is None:
            return
        if tenant not in self.tenants:
            for record in lane_store.load(self.store, tenant, now):
                self.lanes.restore(record)
        self.tenants[tenant] = None

    def _save(self, record: LaneRecord) -> None:
        if self.store is not None:
            lane_store.save(self.store, record)


def _side_identity(sender: _Sender) -> Identity:
    """Return a side request's identity. Those without a session share one per client, because their conversation is
    unknown."""
    session = sender.session or f"{sender.client or 'unknown'}-side"
    lane = Lane(tenant=sender.tenant, session=session, id=f"{session}/side", client=sender.shown, agent=sender.agent)
    return Identity(lane, side=True, why="side request")


def _is_retry(headers: Headers) -> bool:
    """Return whether the client marks the request as a retry, as the official SDKs do."""
    count = headers.get("x-stainless-retry-count", "")
    return count.isdigit() and count.strip("0") != ""
