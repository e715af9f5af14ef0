"""Names of MCP tools as a provider allows them: `mcp__server__tool`, from `[a-zA-Z0-9_-]`, at most 64 characters.

A name is a function of the server's and the tool's own names alone. It never depends on what else there is, so that a
tool that comes or goes later cannot rename another: names stand in prompts that were sent.
"""

from __future__ import annotations

import hashlib
import re

from ..contract import MCP_PREFIX

LONGEST = 64
_LONGEST_SERVER = 24
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_UNDERSCORES = re.compile(r"__+")


def tool_name(server: str, tool: str) -> str:
    """What a server's tool is called. Where anything had to be changed or cut, a digest keeps it apart from others."""
    head = f"{MCP_PREFIX}{server_part(server)}__"
    return head + _fitted(_ODD.sub("_", tool), tool, LONGEST - len(head))


def server_part(server: str) -> str:
    """A server's name within names of tools. It holds no `__` and does not end with `_`, so it can be told apart."""
    plain = _UNDERSCORES.sub("_", _ODD.sub("_", server)).strip("_")
    return _fitted(plain, server, _LONGEST_SERVER)


def _fitted(plain: str, original: str, longest: int) -> str:
    if plain == original and 0 < len(plain) <= longest:
        return plain
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    start = plain[: longest - len(digest) - 1].rstrip("_")
    return f"{start}_{digest}" if start else digest
