"""Headers for the client's response, and the response for a request that is held back."""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from holdfast.engine import PreparedCall
from holdfast.store import is_subscription
from holdfast.wire import Dialect, WireError

LONGEST_VALUE = 1_000
_MOST_MARKERS = 8

Header = tuple[bytes, bytes]


RELAYED: tuple[Header, ...] = ((b"x-holdfast-bypassed", b"off"),)
"""Of a request that went as it came because Holdfast is switched off."""


class Held(Struct, frozen=True):
    """An answer of ours instead of the provider's: the request was not sent."""

    status: int
    headers: tuple[Header, ...]
    body: bytes


def planned(prepared: PreparedCall, warning: str | None, memory: str = "") -> list[Header]:
    """The call's id, its plan and its prediction; what memory it was given."""
    flight, plan = prepared.preflight, prepared.core.plan
    marked = plan.strategy
    for mark in plan.marks[:_MOST_MARKERS]:
        marked += f"; {prepared.path(mark.block)}={mark.ttl}"
    predicted = f"read={flight.read}; write={flight.written}; input={flight.input}"
    if flight.this is not None:
        predicted += f"; usd={_dollars(flight.this)}"
    if flight.cold is not None:
        predicted += f"; cold_usd={_dollars(flight.cold)}"
    if prepared.core.likely < 1:
        predicted += f"; likely={prepared.core.likely:.2f}"
    if is_subscription(prepared.lane.tenant):
        predicted += "; at=list-price"
    headers = [
        header(b"x-holdfast-call", prepared.call),
        header(b"x-holdfast-plan", marked),
        (b"x-holdfast-prediction", predicted.encode()),
    ]
    if prepared.repairs:
        done = [repair.name for repair in prepared.repairs if repair.applied]
        if done:
            headers.append(header(b"x-holdfast-repairs", ", ".join(dict.fromkeys(done))))
    if prepared.lane.observed:
        headers.append((b"x-holdfast-observed", b"subscription"))
    if memory:
        headers.append(header(b"x-holdfast-memory", memory))
    if prepared.reset is not None:
        headers.append(header(b"x-holdfast-reset", prepared.reset))
    if warning is not None:
        headers.append(header(b"x-holdfast-warning", warning))
    return headers


def unplanned(call: str, bypass: str | None) -> list[Header]:
    """The id of a call that goes as it came, and why if that was not to be."""
    headers = [header(b"x-holdfast-call", call)]
    return headers if bypass is None else [*headers, header(b"x-holdfast-bypassed", bypass)]


def warning(cost: Decimal, limit: Decimal) -> str:
    return f"this turn is predicted to cost ${_dollars(cost)}, above the limit of ${_dollars(limit)}"


def held(dialect: Dialect, call: str, cost: Decimal, limit: Decimal, ours: bool) -> Held:
    """Return status 428 with the advice how to send it nevertheless. Clients are asked not to retry. `ours` adds our
    headers."""
    message = (
        f"Holdfast held this request back: {warning(cost, limit)} (gateway.preflight_usd). Nothing was sent. Send it "
        "again with the header `x-holdfast-preflight: send`, or set gateway.preflight to `warn`."
    )
    body = dialect.write_error(WireError(428, "preflight_held", message))
    headers = [(b"content-type", b"application/json"), (b"x-should-retry", b"false")]
    if ours:
        headers += [header(b"x-holdfast-call", call), header(b"x-holdfast-warning", warning(cost, limit))]
    return Held(428, tuple(headers), body)


def _dollars(amount: Decimal) -> str:
    return f"{amount:.6f}".rstrip("0").rstrip(".") or "0"


def header(name: bytes, value: str) -> Header:
    """A header that is one line of plain characters, whatever a client put into its names."""
    plain = value[:LONGEST_VALUE]
    if not (plain.isascii() and plain.isprintable()):
        plain = "".join(character if " " <= character <= "~" else "?" for character in plain)
    return name, plain.encode()
