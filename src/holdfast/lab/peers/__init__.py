"""What other tools send: where each puts its cache markers, and for how long, as a pure function of the prompt.

One small file for each tool. The rules were found by running the tools, and tests compare them with the tools' own
requests wherever `make bench-peers` or `make test-clients` has installed one. May import `caches` and `facts`.
"""

from __future__ import annotations

from . import automatic, claude_code, langchain, litellm, no_cache, opencode, pydantic_ai
from .peer import Peer

__all__ = ["PEERS", "Peer"]

_ALL = (litellm.PEER, langchain.PEER, pydantic_ai.PEER, claude_code.PEER, opencode.PEER, automatic.PEER, no_cache.PEER)
PEERS: dict[str, Peer] = {peer.name: peer for peer in _ALL}
"""By the name under which a replay offers them as a strategy."""
