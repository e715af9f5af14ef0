"""Schemas that discovery has put into the history, replaced by their short form (`tools.deferral.strip = "when_cold"`).

Wanted only of results whose tools the request defines elsewhere, every one of them: with `call_tool` a result is all
that the model knows of its tools, until a reset declares them. Whether it is done is the engine's decision; what lies
under the fence stays unless it pays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from holdfast.caches import Prompt
from holdfast.wire import Body

from .carriers import CLOSE, OPEN, SHORT, loaded_text
from .contract import DISCOVER_TOOLS
from .edit_requests import NOTHING, Masked, Wanted
from .observations import Site, observe, replaced, sites

_block = re.compile(f"{OPEN}(.*?){CLOSE}", re.DOTALL).search
_named = re.compile(rb'<function>\{\\"name\\":\\"([\w-]+)').finditer
"""The names in a result as its text stands in a body, without decoding it."""


def strips(
    body: Body,
    prompt: Prompt,
    defined: Collection[str],
    *,
    already: Collection[bytes] = (),
    found: Sequence[Site] | None = None,
) -> Wanted:
    """Replacements for discovery results with schemas of tools that are `defined` elsewhere. `prompt` is what a reader
    made of this body, `already` are the blocks with recorded edits, `found` the results where they are known."""
    found = sites(body, prompt) if found is None else found
    waiting = [may_strip(body, site, defined) and prompt.blocks[site.blocks[0]].digest not in already for site in found]
    wanted = NOTHING
    for each, waits in zip(observe(body, prompt, found), waiting, strict=True) if any(waiting) else ():
        text = "\n".join(each.texts)
        if not waits or each.tool != DISCOVER_TOOLS or not each.plain or each.stays or text.startswith(SHORT):
            continue
        names = _names(text)
        new = loaded_text(names)
        if names and set(names) <= set(defined) and len(each.digests) == 1 and len(new) < len(text):
            wanted |= Wanted(
                edits={each.digests[0]: replaced(body, each.site, new)[0]},
                masked=(Masked(tool=each.tool, tool_use_id=each.call.id, characters=each.characters),),
            )
    return wanted


def may_strip(body: Body, site: Site, defined: Collection[str]) -> bool:
    """A quick no for the many results without schemas, for those that the model has yet to read, and for those that are
    all it has of a tool."""
    if site.unread or not defined:
        return False
    for span in (body.blocks[place] for place in site.places):
        if body.raw.find(OPEN.encode(), span.start, span.end) >= 0:
            names = {match[1].decode() for match in _named(body.raw, span.start, span.end)}
            return names <= set(defined)
    return False


def _names(text: str) -> list[str]:
    """The names of the tools whose definitions stand in the block, in order; none if it cannot be read."""
    block = _block(text)
    names: list[str] = []
    decode, rest = json.JSONDecoder().raw_decode, "" if block is None else block[1]
    at = rest.find("{")
    while at >= 0:
        try:
            value, end = decode(rest, at)
        except (ValueError, RecursionError):
            return []
        name = value.get("name")
        if not isinstance(name, str):
            return []
        names.append(name)
        at = rest.find("{", end)
    return names
