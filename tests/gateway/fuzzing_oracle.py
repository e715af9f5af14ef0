"""What has to be true of every request: nothing of ours in the way, and no byte changed outside a plan."""

from __future__ import annotations

import json

from .fuzzing_bodies import difference
from .fuzzing_cases import Case
from .fuzzing_wire import Got, Headers, Heard

_HOP = {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"}
_HOP |= {b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings"}
_NOT_SENT = _HOP | {b"host", b"content-length", b"expect"}
_OURS = b"x-holdfast"
_PLAN = b"x-holdfast-plan"
FAILED = "the engine failed on it"


def fault(case: Case, got: list[Got], heard: Heard | None) -> str | None:
    """What went wrong with a request; None where nothing did. Nothing is heard by a client that has left."""
    if heard is None:
        return next((found for each in got if (found := _arrived(case, each, None)) is not None), None)
    if case.expects:
        return _refused(case, got, heard)
    if len(got) != 1:
        return f"it came to the provider {len(got)} times; the client got {heard.status} {heard.body[:300]!r}"
    if heard.header(b"x-holdfast-bypassed") == b"error":
        return FAILED
    return _passed_on(case, heard) or _arrived(case, got[0], heard)


def _refused(case: Case, got: list[Got], heard: Heard) -> str | None:
    if got:
        return f"it came to the provider and should have been answered {case.expects}"
    if heard.status != case.expects:
        return f"answered {heard.status} in place of {case.expects}: {heard.body[:300]!r}"
    if case.method == "HEAD":
        return None
    try:
        json.loads(heard.body)
    except ValueError:
        return f"an error of ours that is not JSON: {heard.body[:300]!r}"
    return None


def _passed_on(case: Case, heard: Heard) -> str | None:
    """The provider's answer as the client got it."""
    said = case.said
    if heard.status != said.status:
        return f"the provider said {said.status}, the client got {heard.status} {heard.body[:300]!r}"
    expected = b"" if case.method == "HEAD" or said.status in (204, 304) else said.body
    if heard.body != expected:
        return f"the provider said {expected[:200]!r} ({len(expected)}), the client got {heard.body[:200]!r}"
    dropped = _HOP | _listed(said.headers)
    wanted = [(name.lower(), value) for name, value in said.headers if name.lower() not in dropped]
    found = [each for each in heard.headers if each[0] not in _HOP | {b"content-length"} and each[0][:10] != _OURS]
    if wanted != found:
        return f"headers of the answer: lost {_less(wanted, found)}, added {_less(found, wanted)}, or in another order"
    return None


def _less(some: Headers, others: Headers) -> list[tuple[bytes, bytes]]:
    return [(name, value[:80]) for name, value in some if (name, value) not in others]


def _listed(headers: Headers) -> set[bytes]:
    values = [value for name, value in headers if name.lower() == b"connection"]
    return {part.strip().lower() for value in values for part in value.split(b",")}


def _arrived(case: Case, got: Got, heard: Heard | None) -> str | None:
    """The request as the provider got it."""
    if (got.method.decode(), got.target) != (case.method, case.arrives.encode("latin-1")):
        return f"it went as {got.method!r} {got.target!r}, not to {case.arrives!r}"
    verbatim = got.body == case.body
    dropped = _NOT_SENT | _listed(case.headers) | (set() if verbatim else {b"content-encoding"})
    wanted = [
        (name.lower(), value.strip(b" \t"))
        for name, value in case.headers
        if name.lower() not in dropped and name.lower()[:10] != _OURS
    ]
    found = [(name.lower(), value) for name, value in got.headers if name.lower() not in _NOT_SENT]
    if wanted != found:
        return f"headers of the request: lost {_less(wanted, found)}, added {_less(found, wanted)}, or in another order"
    lengths = [value for name, value in got.headers if name.lower() == b"content-length"]
    if lengths not in ([], [b"%d" % len(got.body)]):
        return f"its length was told as {lengths}"
    return None if verbatim or heard is None else _changed(case, got, heard)


def _changed(case: Case, got: Got, heard: Heard) -> str | None:
    """A body that is not the client's own."""
    if heard.header(_PLAN) is None or case.dialect is None:
        return "its body was changed without a plan"
    if case.plain is None:
        return "its body was changed, which cannot be read"
    if any(name.lower() == _OURS and value.strip().lower() == b"off" for name, value in case.headers):
        return "its body was changed though that was switched off"
    named = (heard.header(b"x-holdfast-repairs") or b"").decode()
    repairs = frozenset(part.strip() for part in named.split(",") if part.strip())
    if got.body == case.plain:
        return None
    found = difference(case.dialect, case.model, case.plain, got.body, repairs)
    return (
        None
        if found is None
        else f"repairs {sorted(repairs)}: {found}\nit became {got.body.decode('latin-1')!r:.100000}"
    )
