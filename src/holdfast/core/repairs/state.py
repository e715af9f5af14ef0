"""The names of repairs, and the state of a lane's repairs: orders, digests and references.

The bytes behind the digests are in a `ByteMemory`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field

from ..plan import DIGEST

Name = Literal["tool-order", "key-order", "volatile-value", "memory-to-tail", "system-split"]
Mode = Literal["off", "suggest", "values", "on"]
MOVES: frozenset[str] = frozenset(("values", "on"))
"""Modes in which a value may be moved away from its place in the client's text."""

ORDER: frozenset[str] = frozenset(("tool-order", "key-order"))
"""Repairs that change no content: they are made unless repairs are off."""

NAMES: frozenset[str] = ORDER | {"volatile-value", "memory-to-tail", "system-split"}


class Repair(Struct, frozen=True):
    """One repair of one request: what it is called, where, why, and the tokens that stay readable by it.

    One that is not `applied` is a suggestion. `exact` if it moves nothing but unambiguous values, so that
    `cache.repair = "values"` makes it.
    """

    name: Name
    path: str
    why: str
    saved_tokens: int = 0
    applied: bool = True
    exact: bool = False


MOST_BLOCKS = 5_000
"""Blocks of a lane with a stored order of keys."""
MOST_BYTES = 65_536
"""Bytes of their different orders together; most blocks have one of a few."""


class FirstText(Struct):
    """A system text as it was sent. `digest` is its block's, `text` names its literal.

    Once `applied`, the text is sent in the place of the client's; `patch` refers to what it can be restored from when
    its literal is lost (nothing where that must not be stored). `split` is where the block is cut in two (0: it is
    not), `head` the digest of the part before.
    """

    digest: bytes
    text: bytes
    applied: bool = False
    split: int = 0
    head: bytes = b""
    patch: bytes = b""


class InsertedText(Struct):
    """A text of ours that was sent after a client's block. `told` has digests of what the model learned from it.

    The same turn may be sent again with other values, so that more is inserted after it. `before` has the prefixes of
    the digests of the blocks that this text was the last of ours in front of.
    """

    name: Name
    text: bytes
    told: dict[bytes, bytes]
    before: bytes = b""


class KeyOrders(Struct):
    """First orders of keys, so that they outlive the process: places of keys in objects, no key and no text.

    Kept once the client was seen to change them. `blocks` are the digests of the messages of the request before as they
    were first sent, one after the other; `numbers` says, in two bytes for each, which of the `orders` is its own. An
    empty order says that a block has none. `tools` are the orders of tools by name.
    """

    blocks: bytes = b""
    numbers: bytes = b""
    orders: list[bytes] = field(default_factory=list)
    tools: dict[bytes, bytes] = field(default_factory=dict)

    def digests(self) -> list[bytes]:
        return [self.blocks[at : at + DIGEST] for at in range(0, len(self.blocks), DIGEST)]

    def by_digest(self) -> dict[bytes, bytes]:
        """The order of each block."""
        return dict(zip(self.digests(), [self.orders[number] for number in array("H", self.numbers)], strict=True))

    def keep(self, blocks: list[tuple[bytes, bytes]]) -> bool:
        """Keep these blocks with their orders and no others; nothing where they are too many. Whether that is new."""
        numbers: dict[bytes, int] = {}
        before = self.blocks
        if len(blocks) > MOST_BLOCKS:
            blocks = []
        for _, order in blocks:
            numbers.setdefault(order, len(numbers))
        if sum(map(len, numbers)) > MOST_BYTES:
            blocks, numbers = [], {}
        self.blocks = b"".join([digest for digest, _ in blocks])
        self.numbers = array("H", [numbers[order] for _, order in blocks]).tobytes()
        self.orders = list(numbers)
        return self.blocks != before


class RepairState(Struct):
    """A lane's first bytes and what was inserted.

    `first` leads from a tool's digest without key order to the digest it was first sent with. `orders` are the tools of
    each set in their first order, `tools` is the set sent last and `tools_sent` the digests of the section it was sent
    as. `history` names the message blocks of the request before, `rekeyed` are the digests of those of them that were
    sent with their keys in another order than the client's, one after the other, `key_orders` how those were. `texts`
    are system texts by number, `inserts` belong to the block they follow (digest and occurrence). `kept_tools` are the
    tools whose first values are kept: what they are known by, and what they can be restored from. `length` counts the
    blocks of the request before; `altered` if anything was ever repaired, `bypassed` if the request before was not;
    `narrow` if it was one of `cache.repair = "values"`.
    """

    first: dict[bytes, bytes] = field(default_factory=dict)
    orders: dict[bytes, list[bytes]] = field(default_factory=dict)
    tools: bytes = b""
    tools_sent: bytes = b""
    history: bytes = b""
    rekeyed: bytes = b""
    key_orders: KeyOrders = field(default_factory=KeyOrders)
    texts: dict[int, FirstText] = field(default_factory=dict)
    inserts: dict[bytes, list[InsertedText]] = field(default_factory=dict)
    kept_tools: dict[bytes, bytes] = field(default_factory=dict)
    length: int = 0
    altered: bool = False
    bypassed: bool = False
    narrow: bool = False


KEPT_SETS = 8
"""Sets of tools whose order a lane remembers: some clients switch between a few."""


def set_of(tools: Sequence[bytes]) -> bytes:
    return sha256(b"".join(sorted(tools))).digest()[:16]


def first_order(state: RepairState, tools: Sequence[bytes]) -> list[bytes]:
    """The order this set was first sent in.

    The client's order becomes the first one of a set that is new: a tool that was added or taken away has lost the
    prefix anyhow, and where the client put it is where it stays.
    """
    name = set_of(tools)
    order = state.orders.pop(name, None) or list(tools)
    state.orders[name] = order
    state.tools = name
    while len(state.orders) > KEPT_SETS:
        del state.orders[next(iter(state.orders))]
    return order
