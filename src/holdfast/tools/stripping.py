"""Schemas that discovery has put into the history, replaced by their short form (`tools.deferral.strip = "when_cold"`).

Wanted only where a request declares what was discovered elsewhere: with `call_tool` the result is all that the model
knows of the tools. Whether it is done is the engine's decision; what lies under the fence stays unless it pays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence

from holdfast.caches.values import Prompt
from holdfast.wire import Body

from .carriers import CLOSE, OPEN, SHORT, loaded_text
from .observations import Site, observe, replaced, sites
from .values import DISCOVER_TOOLS
from .wanting import NOTHING, Masked, Wanted

_block = re.compile(f"{OPEN}(.*?){CLOSE}", re.DOTALL).search


def strips(
    body: Body, prompt: Prompt, *, already: Collection[bytes] = (), found: Sequence[Site] | None = None
) -> Wanted:
    """Replacements for discovery results with schemas. `prompt` is what a reader made of this body, `already` are the
    blocks with recorded edits, `found` the results where they are known."""
    found = sites(body, prompt) if found is None else found
    waiting = [may_strip(body, site) and prompt.blocks[site.blocks[0]].digest not in already for site in found]
    wanted = NOTHING
    for each, waits in zip(observe(body, prompt, found), waiting, strict=True) if any(waiting) else ():
        text = "\n".join(each.texts)
        if not waits or each.tool != DISCOVER_TOOLS or not each.plain or each.stays or text.startswith(SHORT):
            continue
        names = _names(text)
        new = loaded_text(names)
        if names and len(each.digests) == 1 and len(new) < len(text):
            wanted |= Wanted(
                edits={each.digests[0]: replaced(body, each.site, new)[0]},
                masked=(Masked(tool=each.tool, tool_use_id=each.call.id, characters=each.characters),),
            )
    return wanted


def may_strip(body: Body, site: Site) -> bool:
    """A quick no for the many results without schemas, and for those that the model has yet to read."""
    spans = (body.blocks[place] for place in site.places)
    return not site.unread and any(body.raw.find(OPEN.encode(), span.start, span.end) >= 0 for span in spans)


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
