"""One call from the client's bytes to its end: identified, prepared, its answer read as it passes, settled.

Knows no sockets: the gateway and the SDKs' HTTP clients carry the bytes and tell what happened to them. Here is the
boundary of law 8: whatever fails before the request is out, or takes too long, the client's own bytes go; whatever
fails afterwards, the client does not notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Literal

from msgspec.structs import replace

from holdfast.config import Settings
from holdfast.config.sections import GatewaySettings
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions
from holdfast.engine.state import facts_of, reference
from holdfast.records import Usage
from holdfast.records.events import GatewayBypassed, GatewayPreflight
from holdfast.serving import encodings
from holdfast.store import is_subscription
from holdfast.wire import Body, Dialect, Reading, StreamReport, Unreadable

from ..call_records import UnplannedCall
from ..identity import Identities, Identity, RequestSource
from ..partial_usage import Partial
from ..side_calls import WANTED
from . import response_headers
from .client_request import Incoming, Wishes, from_page, wishes
from .fail_open import TIMERS, Clock, Slow, TimeBudget, Timers, log, quiet
from .kill_switch import Switch
from .memory_hook import MEMORY, Remembered, Remembering, Reminder, care_of, remembered
from .response_headers import Header, Held
from .response_tap import ResponseTap

UNKNOWN = "unknown"
"""The session of what could not be identified."""


class Passages:
    """What all calls of one process share. `settings` are those of an agent by its name; `remembering` gives requests
    memory before they are prepared. `clock` gives the time, `timers` measure a `Budget`."""

    def __init__(
        self,
        engine: EngineCore,
        identities: Identities,
        settings: Settings | Callable[[str], Settings],
        *,
        clock: Clock = time.time,
        timers: Timers = TIMERS,
        remembering: Remembering | None = None,
        switch: Switch | None = None,
    ) -> None:
        self.switch = switch or Switch()
        self.engine, self.identities, self.remembering = engine, identities, remembering
        self._settings = settings if callable(settings) else lambda _agent: settings
        self.care = lambda agent: care_of(self._settings(agent), memory=remembering is not None)
        self.clock, self.timers = clock, timers

    @property
    def settings(self) -> Settings:
        return self._settings("")

    def remembers(self, tenant: str | None) -> bool:
        """Whether memory may count for requests of this tenant, so that they may have to wait for the store."""
        return self.remembering is not None and self.remembering.concerns(tenant or "")

    def begin(self, incoming: Incoming, dialect: Dialect, model: str = "") -> Passage:
        """Take a request in. Never raises."""
        passage = Passage(self, incoming, dialect, model)
        passage.enter()
        return passage


class Passage:
    """A call under way. `raw` is the body to send; `verbatim` says that it is the client's, encoded as it came.

    `bypass` is why the client's own bytes go; `held` an answer to give instead of sending anything.
    """

    # How it begins; in the class, because most of it stays so.
    verbatim = True
    call: str | None = None
    prepared: PreparedCall | None = None
    identity: Identity | None = None
    bypass: str | None = None
    held: Held | None = None
    _gateway: GatewaySettings | None = None
    _warning: str | None = None
    _body: Body | None = None
    _given: Remembered | None = None
    _untold = False  # the engine does not know yet that the client's own bytes went
    _stage = "begin"
    _first_token: float | None = None
    _ended = False

    def __init__(self, passages: Passages, incoming: Incoming, dialect: Dialect, model: str) -> None:
        self._passages, self.incoming, self.dialect, self._model = passages, incoming, dialect, model
        self.raw = incoming.body
        self.tap = ResponseTap()
        self.started = passages.clock()
        self._budget = TimeBudget(passages.timers)

    # In

    def enter(self) -> None:
        """All our stages; the fail-open boundary."""
        try:
            self._enter()
        except Slow:
            self._pass_by("slow")
        except Exception as error:  # noqa: BLE001
            log(self._stage, error)
            self._pass_by("error", error)

    def _enter(self) -> None:
        engine, incoming = self._passages.engine, self.incoming
        gateway = self._gateway = self._passages.settings.gateway
        headers = incoming.named()
        wanted = wishes(headers)
        self._next("decode")
        encoding = encodings.named(headers.get("content-encoding"))
        plain = encodings.decoded(incoming.body, encoding, gateway.limits.body_bytes)
        if plain is None:
            self.bypass = "encoding"
            return
        self._next("parse")
        body = engine.parse(self.dialect, plain, model=self._model)
        if isinstance(body, Unreadable):
            self.bypass = "unreadable"
            return
        self._body = body
        self._next("identify")
        identities, started = self._passages.identities, self.started
        tenant = identities.tenant(headers, incoming.query) if incoming.tenant is None else incoming.tenant

        def read() -> Reading:
            self._budget.untimed(lambda: identities.load(tenant, started))
            reading = engine.read(body)
            self._budget.fresh = reading.fresh
            return reading

        whose = wanted.project or incoming.project
        source = RequestSource(headers, incoming.query, body, read, tenant, whose, self._passages.care)
        identity = identities.find(source, started)
        self.identity = identity
        if wanted.off:
            self._pass_by(WANTED)
            return
        if identity.side:
            return
        self._budget.untimed(lambda: engine.load(self.lane, body, now=started))
        given = self._given = self._remember(body, identity, read, wanted, gateway)
        self._next("prepare")
        prepared = self.prepared = engine.prepare(
            given.body,
            lane=self.lane,
            now=started,
            options=PrepareOptions(
                skip=wanted.skip,
                reset=wanted.reset or given.reset or self._relayed(),
                volatile=given.volatile,
                pinned=given.pinned,
            ),
            reading=given.reading,
            timeout=gateway.limits.wait_ms / 1_000,
        )
        self._stage = "send"
        self.call = prepared.call
        identities.sent(identity, body, read, started)
        if not self._may_go(prepared, wanted, gateway):
            return
        if prepared.raw != plain and not self.lane.observed:
            self.raw, self.verbatim = prepared.raw, False
        with quiet("went"):
            given.went()

    def _relayed(self) -> str | None:
        """Requests of its lane may have been relayed past us since its last one."""
        until = self._passages.switch.until
        if not until:
            return None
        last = self._passages.engine.ledger(self.lane, now=self.started).last
        return "bypassed" if last is not None and last.at < until else None

    def _remember(
        self, body: Body, identity: Identity, read: Callable[[], Reading], wanted: Wishes, gateway: GatewaySettings
    ) -> Remembered:
        """The request with memory in it, where there is any for it; otherwise as it came."""
        passages, as_it_came = self._passages, Remembered(body=body)
        if passages.remembering is None or not passages.remembering.concerns(identity.lane.tenant):
            return as_it_came
        self._next(MEMORY)
        reminder = Reminder(
            body=body,
            lane=self.lane,
            read=read,
            now=self.started,
            timeout=gateway.limits.wait_ms / 2_000,  # the rest is for what comes after it
            project=wanted.project,
            directory=self.incoming.project,
            off=wanted.no_memory or self.lane.observed,
            from_page=from_page(self.incoming.named()),
        )
        return remembered(passages.remembering, reminder, passages.engine) or as_it_came

    def _may_go(self, prepared: PreparedCall, wanted: Wishes, gateway: GatewaySettings) -> bool:
        """Pre-flight: whether the request may go."""
        cost, limit = prepared.preflight.this, gateway.preflight_usd
        if gateway.preflight == "off" or limit is None or cost is None or cost <= (most := Decimal(str(limit))):
            return True
        holds = gateway.preflight == "hold" and not wanted.send
        action: Literal["held", "released", "warned"] = "held" if holds else "released" if wanted.send else "warned"
        event = GatewayPreflight(call=prepared.call, action=action, dollars=cost, limit=most)
        self._passages.engine.tell(prepared.lane, event, now=self.started)
        if not holds:
            self._warning = response_headers.warning(cost, most)
            return True
        self._passages.engine.abandon(prepared, now=self._now(), error="held by pre-flight")
        self.held, self._ended = response_headers.held(self.dialect, prepared.call, cost, most, gateway.headers), True
        self._unanswered()
        return False

    def _next(self, stage: str) -> None:
        """A stage begins, if there is time for it."""
        self._budget.check(self._passages.settings.gateway.limits)
        self._stage = stage

    def _pass_by(self, why: str, error: Exception | None = None) -> None:
        """The client's own bytes go. Where the engine itself failed it knows so already."""
        self.bypass, self.raw, self.verbatim = why, self.incoming.body, True
        # The engine knows the request as it was prepared: with memory in it.
        known = self._stage == "prepare" and (self._given is None or self._given.body is self._body)
        self._untold = not known and self.identity is not None and not self.identity.side
        if self.prepared is not None:  # it failed after it was prepared
            with quiet("abandon"):
                self._passages.engine.abandon(self.prepared, now=self._now(), error=UNKNOWN)
            self._untold, self.prepared = True, None
        with quiet("tell"):
            self.call = self.call or self._passages.engine.call_id()  # one call, however far it was prepared
            elapsed = max(0, round(self._budget.spent * 1_000_000))
            event = GatewayBypassed(
                call=self.call,
                stage=why if why == WANTED else self._stage,
                error=None if error is None else type(error).__name__,
                elapsed_us=elapsed,
            )
            self._passages.engine.tell(self.lane, event, now=self.started)

    @property
    def lane(self) -> Lane:
        """The lane it belongs to, or one for what could not be identified. A subscription's is only observed, unless
        the settings say otherwise."""
        if self.identity is not None:
            lane = self.identity.lane
            if not is_subscription(lane.tenant):
                return lane
            observed = self._gateway is not None and self._gateway.subscriptions == "observe"
            return replace(lane, observed=observed, before=self._passages.identities.before(lane.tenant))
        tenant = self.incoming.tenant
        if tenant is None:
            tenant = self._passages.identities.tenant(self.incoming.named(), self.incoming.query)
        return Lane(tenant=tenant, session=UNKNOWN, id=UNKNOWN)

    # Out

    def response_headers(self) -> list[Header]:
        """Return the headers to add to the client's response; none if they are switched off."""
        if self._gateway is None or not self._gateway.headers:
            return []
        try:
            if self.prepared is not None:
                return response_headers.planned(
                    self.prepared, self._warning, "" if self._given is None else self._given.says
                )
            self.call = self.call or self._passages.engine.call_id()
            return response_headers.unplanned(self.call, self.bypass)
        except Exception as error:  # noqa: BLE001
            log("headers", error)
            return []

    @property
    def names_object(self) -> bool:
        """Whether it names an object of ours that may be gone: a refusal has to be read before it is passed on."""
        return self.prepared is not None and self.prepared.use is not None

    def refused(self, status: int, raw: bytes) -> bytes | None:
        """The provider refused: what to send instead, if that is because something we named is gone (Gemini)."""
        if self.prepared is None or not self.names_object:
            return None
        with quiet("refused"):
            instead = self._passages.engine.gone(self.prepared, status, raw, now=self._now())
            if instead is not None:
                self.raw, self.verbatim = instead, False
                return instead
        return None

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The head of the response is there."""
        if self.identity is not None and is_subscription(self.identity.lane.tenant) and 200 <= status < 300:
            headers = tuple(headers)
            self._recognise(self.identity, headers)
        given = self._given is not None and self._given.body is not self._body
        self.tap.head(self.dialect, status, headers, self._refused if given else None)

    def _recognise(self, identity: Identity, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        """The answer may show that a login was renewed: from the next request on its account goes on."""
        identities, body = self._passages.identities, self._body
        with quiet("account"):
            if body is not None and identities.recognise(identity, self.incoming.named(), body, headers, self.started):
                self._passages.engine.succeed(self.lane, facts_of(body).ref, now=self._now())

    def _refused(self, status: int, said: str) -> None:
        """Pass the reason of a refusal to the provider of memory."""
        if self._passages.remembering is not None:
            self._passages.remembering.refused(self.lane, status, said)

    def _record_bypass(self) -> None:
        """The client's own bytes are with the provider: what follows is compared with them, and may go on with them."""
        engine, body, identity = self._passages.engine, self._body, self.identity
        if body is None or identity is None:
            return
        with quiet("bypassed"):
            if self._untold:
                self._untold = False
                engine.bypassed(self.lane, body, now=self._now())
        with quiet("sent"):
            self._passages.identities.sent(identity, body, lambda: engine.read(body), self.started)

    def feed(self, chunk: bytes) -> None:
        """Pass on a copy of what the client gets."""
        if self._ended or not chunk:
            return
        self.tap.feed(chunk)
        if not self.tap.served:
            return
        if self._first_token is None and self.tap.begun:
            self._first_token = self._now()
            if self.tap.streams:  # an answer that comes whole is settled at once
                self._begins(self._first_token)

    def _begins(self, at: float) -> None:
        if self.prepared is not None:
            with quiet("first_token"):
                self._passages.engine.first_token(self.prepared, now=at, usage=self.tap.usage)
        elif (usage := self.tap.usage) is not None:
            with quiet("note"):
                self._note(usage, "", None, estimated=True)

    def finish(self) -> None:
        """The response came whole."""
        if self._ended:
            return
        self._ended = True
        self._end(*self._finished(self.tap.close()))

    def cut(self, error: str = "") -> None:
        """It broke off: at the provider's side (`error` says how), or the client left. Who leaves when the last event
        of a stream is there has left nothing out."""
        if self._ended:
            return
        self._ended = True
        report = self.tap.report
        if report is not None and (report.error is not None or (report.finished and report.counts is not None)):
            self._end(*self._finished(report))
        else:
            self._end(None, error)

    def _finished(self, report: StreamReport | None) -> tuple[Usage | None, str]:
        """Return the outcome of a finished response. Its id is registered, since a later request may refer to it."""
        if self.identity is not None and self.identity.scope and report is not None and report.response_id:
            with quiet("answered"):
                self._passages.identities.answered(self.identity, report.response_id)
        return self.tap.outcome(report)

    def _end(self, usage: Usage | None, error: str) -> None:
        engine, now = self._passages.engine, self._now()
        partial = None
        if self._first_token is None:
            self._unanswered()
        elif usage is None:
            partial = self.tap.broken_off()
        if self.prepared is None:
            with quiet("note"):
                self._note(usage or self._estimated(partial), error, now, estimated=usage is None)
            if self.bypass is not None and self.tap.served:
                self._record_bypass()  # now that the client has its answer: this may take a while
            return
        if usage is not None:
            try:
                engine.settle(self.prepared, usage, now=now)
            except Exception as problem:  # noqa: BLE001
                log("settle", problem)
                partial = Partial(output=usage.output)
        if self.prepared.verdict is None:  # also what could not be settled is not left pending
            if self._first_token is not None:
                self._begins(self._first_token)
            with quiet("abandon"):
                engine.abandon(self.prepared, now=now, error=error, partial=partial)

    def _unanswered(self) -> None:
        if self.identity is not None:
            with quiet("unanswered"):
                self._passages.identities.unanswered(self.identity)

    def _estimated(self, partial: Partial | None) -> Usage | None:
        """Return the usage of an unplanned call that was cut off; without one of the provider, its whole prompt as
        plain input."""
        if partial is None:
            return None
        body = self._body if partial.usage is None else None
        return partial.billed(Usage(input=0 if body is None else self._passages.engine.read(body).prompt.tokens))

    def _note(self, usage: Usage | None, error: str, now: float | None, *, estimated: bool) -> None:
        """A call that was not planned: what it was, and what it cost. Without `now` it is under way."""
        side = self.bypass is None  # what is neither planned nor passed by stands beside the conversation
        self.call = self.call or self._passages.engine.call_id()
        call = UnplannedCall(
            id=self.call,
            lane=self.lane,
            kind="side" if side else "bypassed",
            model=self._reference(),
            started=self.started,
            first_token=self._first_token,
            ended=now,
            usage=usage,
            estimated=estimated,
            error=error,
            why=self.bypass or "",
        )
        self._passages.engine.note(call)

    def _reference(self) -> str:
        """Return the model's name for stored data; for a body that could not be read it is in the answer."""
        if self._body is not None:
            return facts_of(self._body).ref
        named = self._model or (self.tap.report is not None and self.tap.report.model)
        return reference(self.dialect, named) if named else UNKNOWN

    def _now(self) -> float:
        return self._passages.clock()
