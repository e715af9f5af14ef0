"""Anthropic's prompt cache as an outsider would model it from the documentation, for bodies of a dump.

Nothing of ours is imported: blocks are hashed as they were decoded, tokens are characters over four.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

FLOOR = 4_096
SECONDS = {"5m": 300, "1h": 3_600}
WRITE = {"5m": 1.25, "1h": 2.0}
READ = 0.1
_RUNS = ("tool_use", "tool_result")


def blocks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tools, system, messages; with each block where it stands."""
    for tool in body.get("tools", []):
        yield "tool", tool
    for text in body.get("system", []):
        yield "system", text
    for message in body["messages"]:
        content = message["content"]
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            yield message["role"], block


class Cache:
    """One cache for a whole file: entries are (tokens, seconds, expires, readable) by the hash of their prefix."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[float, int, float, float]] = {}

    def price(self, line: dict[str, Any]) -> float:
        """What a request's input costs, in plain input tokens."""
        body, at = line["body"], line["at"]
        keys, ends, kinds, marks = [], [], [], {}
        digest, end = hashlib.sha256(line["model"].encode()), 0.0
        for index, (where, block) in enumerate(blocks(body)):
            marker = block.pop("cache_control", None)
            text = json.dumps(block)
            digest.update(f"{where}|{text}|".encode())
            end += len(text) / 4
            keys.append(digest.copy().hexdigest())
            ends.append(end)
            kinds.append(block.get("type", "tool"))
            if marker is not None:
                marks[index] = marker.get("ttl", "5m")
        if "cache_control" in body:
            last = max(i for i, kind in enumerate(kinds) if kind != "thinking")
            marks.setdefault(last, body["cache_control"].get("ttl", "5m"))
        assert len(marks) <= 4
        marks = {index: ttl for index, ttl in sorted(marks.items()) if ends[index] >= FLOOR}
        hit = max((self._hit(keys, kinds, mark, at) for mark in marks), default=-1)
        read = ends[hit] if hit >= 0 else 0.0
        cost, done = read * READ, read
        base = self._refresh(keys[: hit + 1], at)
        for index, ttl in marks.items():
            if index > hit:
                cost += (ends[index] - done) * WRITE[ttl]
                done = ends[index]
                base = min(base, SECONDS[ttl])
                self._write(keys[index], (done, int(base), at + base, line["first_token_at"]), at)
        return cost + end - done

    def _hit(self, keys: list[str], kinds: list[str], mark: int, at: float) -> int:
        positions, before = 0, ""
        for index in range(mark, -1, -1):
            positions += not (kinds[index] in _RUNS and kinds[index] == before)
            before = kinds[index]
            if positions > 20:
                return -1
            entry = self.entries.get(keys[index])
            if entry is not None and entry[3] <= at <= entry[2]:
                return index
        return -1

    def _refresh(self, keys: list[str], at: float) -> float:
        """Keep what is read alive; gives the lifetime of the longest prefix that was."""
        lifetime = float("inf")
        for key in keys:
            entry = self.entries.get(key)
            if entry is not None and entry[3] <= at <= entry[2]:
                lifetime = entry[1]
                self.entries[key] = (entry[0], entry[1], max(entry[2], at + entry[1]), entry[3])
        return lifetime

    def _write(self, key: str, entry: tuple[float, int, float, float], at: float) -> None:
        known = self.entries.get(key)
        if known is None or known[2] < entry[2]:
            self.entries[key] = entry


def costs(lines: Iterable[str]) -> dict[str, float]:
    """What each strategy of a dump costs."""
    cache, found = Cache(), dict[str, float]()
    last = 0.0
    for text in lines:
        line = json.loads(text)
        assert line["at"] >= last
        last = line["at"]
        found[line["strategy"]] = found.get(line["strategy"], 0.0) + cache.price(line)
    return found
