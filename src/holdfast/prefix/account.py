"""Law 7 as accounting: through us a client pays at most what it would have paid alone, plus one probing credit.

Every call is priced twice: as it went out, and as the client's own bytes and markers would have fared alone (a second
pool that only ever sees those). What was saved funds later writes; a plan that costs more than alone now, in the hope
of reads to come, needs the balance to cover the difference. Parallel calls reserve theirs, so that together they cannot
overdraw. Nothing here is a bill.
"""

from __future__ import annotations

from .experience import Client

MOST = 5.0
"""Dollars of savings that are kept: a client that turns bad after a good month is stood down soon."""


def available(client: Client, credit: float) -> float:
    """What a plan may cost beyond what the client would pay alone."""
    return credit + client.saved - client.reserved


def reserve(client: Client, excess: float) -> float:
    """Set aside what a plan costs beyond alone; gives what was set aside."""
    kept = max(0.0, excess)
    client.reserved += kept
    return kept


def release(client: Client, kept: float) -> None:
    client.reserved = max(0.0, client.reserved - kept)


def book(client: Client, alone: float, paid: float) -> None:
    """A call is settled: what it saved, or cost, against the client alone."""
    client.saved = min(client.saved + alone - paid, MOST)
