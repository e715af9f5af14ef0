"""What tenants have learned, which several processes add to: loaded once, written behind requests.

A write adds what was learned since the one before to whatever another process wrote in between. What a failed write was
to add is added by the next; what could not be read is never replaced.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

from msgspec import Struct, field

from holdfast.core import Experience, experience
from holdfast.core import merged as merge_experience

from .fallible_store import Shelf
from .versions import Added, merged

LEARNED = ""
"""The name, among a tenant's pools, of what was learned beyond them."""

_UNKNOWN = -(1 << 40)
"""Expected of what could not be read: no version is ever this one, so ours is added to whatever is there."""
_NOTHING = experience.encode(Experience())


class _Learned(Struct):
    """What a tenant's row holds as far as we know, and our writes of it that are under way: what was written, and what
    had been before. `behind` says that others wrote too."""

    version: int
    base: bytes
    under_way: deque[tuple[Future[int], int, bytes, bytes]] = field(default_factory=deque)
    behind: bool = False


class Learning:
    """The experience of tenants in a store."""

    def __init__(self, store: Shelf) -> None:
        self._store = store
        self._known: dict[str, _Learned] = {}

    def load(self, tenant: str) -> Experience:
        version, base = self._stored(tenant)
        self._known[tenant] = _Learned(_UNKNOWN if version is None else version, base)
        return experience.decode(base)

    def save(self, tenant: str, mine: Experience) -> None:
        """Write it behind the request; what others have learned meanwhile is taken in."""
        known = self._known[tenant]
        if known.behind or (known.under_way and known.under_way[0][0].done()):
            self._catch_up(tenant, mine)
        before, data = known.base, experience.encode(mine)
        future = self._store.put_pool(tenant, LEARNED, data, expected=known.version, merge=Added(data, before))
        known.under_way.append((future, known.version, before, data))
        known.version, known.base = known.version + 1, data

    def _catch_up(self, tenant: str, mine: Experience) -> None:
        """Take in what other processes have learned, once our own writes are done: only then is it known what of the
        stored is ours."""
        known = self._known[tenant]
        while known.under_way and known.under_way[0][0].done():
            future, version, before, data = known.under_way.popleft()
            if future.exception() is not None:  # nothing was written: it is still to be added
                known.base, known.version, known.behind = merged(known.base, before, data), _UNKNOWN, True
            elif future.result() != version + 1:
                known.behind = True
        if not known.behind or known.under_way:
            return
        version_now, stored = self._stored(tenant)
        if version_now is None:
            return
        found = merge_experience(experience.decode(stored), mine, experience.decode(known.base))
        for part in found.__struct_fields__:
            setattr(mine, part, getattr(found, part))
        known.version, known.base, known.behind = version_now, stored, False

    def _stored(self, tenant: str) -> tuple[int | None, bytes]:
        """Version and bytes of the row; no version where it cannot be read."""
        row = self._store.pool(tenant, LEARNED)
        if row is not None:
            return row.version, row.data
        return None if self._store.down else 0, _NOTHING
