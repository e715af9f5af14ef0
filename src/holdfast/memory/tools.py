"""The tools of memory: for the two files, and for the knowledge store.

They write without a question: nothing else is in these files, and they have limits; an entry of the store has a
history. The change is emitted as an event with the answer, so that the conversation is told of it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.facts import estimate
from holdfast.records.events import MemorySurfaced, MemoryUpdated
from holdfast.tools import Run, Tool, ToolContext, ToolOutput, flag, go_on, in_thread, number, schema, text

from .entries import AMNESIA, CATEGORIES, Hit, KnowledgeEntry
from .files import FILES, Change, MemoryFiles
from .knowledge import Knowledge
from .prompt_texts import catalogue_line, entry_text, recalled

MEMORY_ADD = "memory_add"
MEMORY_REPLACE = "memory_replace"
MEMORY_CONSOLIDATE = "memory_consolidate"

EMPTY = "(It is empty.)"
"""The text for a file that became empty: an empty text would not be shown."""

_FILE_ADD = (
    "Remember one fact for later sessions, as one line: in USER.md (`user`) what is known of the user, in MEMORY.md "
    "(`memory`) notes about the project."
)
_FILE_REPLACE = "Replace a passage of USER.md or MEMORY.md that stands there exactly once. An empty `new` removes it."
_CONSOLIDATE = "Replace all of USER.md or MEMORY.md with a shorter text that keeps what matters."
_FILE = text(enum=list(FILES))
RECALL = "recall"
KNOWLEDGE_ADD = "knowledge_add"
KNOWLEDGE_REPLACE = "knowledge_replace"
KNOWLEDGE_FORGET = "knowledge_forget"
MOST = 5
"""Entries that recall gives, also where none are given unasked."""
_WHOLE = 8_000
"""Characters of an answer with whole entries; the best one is whole however long it is, the rest are named."""
STORE = "knowledge"
"""The name of the store in events."""

_RECALL = "Search the knowledge of earlier sessions: gives the entries that fit best, or the one of an id, in full."
_ADD = (
    f"Keep one thing for later sessions of this project, or `everywhere`. Category: {', '.join(CATEGORIES)} or another "
    "word. The title says it in a few words."
)
_REPLACE = "Correct an entry by its id. What is left out stays as it is."
_FORGET = "Withdraw an entry that does not hold any more, by its id."


Work = Callable[[Mapping[str, Any], ToolContext], ToolOutput]


def memory_tools(files: MemoryFiles, *, amnesia: Callable[[], bool] = lambda: False) -> tuple[Tool, ...]:
    """The tools for these files. Their definitions never change, not even where nothing may be written."""

    def add(input: Mapping[str, Any]) -> Change:
        return files.add(input["file"], input["text"])

    def replace(input: Mapping[str, Any]) -> Change:
        return files.replace(input["file"], input["old"], input["new"])

    def consolidate(input: Mapping[str, Any]) -> Change:
        return files.consolidate(input["file"], input["text"])

    passage = text("As it stands there, to the letter", minLength=1)
    return (
        _file_tool(MEMORY_ADD, _FILE_ADD, {"text": text(minLength=1)}, add, amnesia),
        _file_tool(MEMORY_REPLACE, _FILE_REPLACE, {"old": passage, "new": text()}, replace, amnesia),
        _file_tool(MEMORY_CONSOLIDATE, _CONSOLIDATE, {"text": text()}, consolidate, amnesia),
    )


def _file_tool(
    name: str,
    description: str,
    members: Mapping[str, Mapping[str, Any]],
    change: Callable[[Mapping[str, Any]], Change],
    amnesia: Callable[[], bool],
) -> Tool:
    return Tool(
        name=name,
        description=description,
        run=_file_runner(change, amnesia),
        effect="write",
        input_schema=schema({"file": _FILE, **members}),
        source="builtin",
        core=True,
        confirm=False,
    )


def _file_runner(change: Callable[[Mapping[str, Any]], Change], amnesia: Callable[[], bool]) -> Run:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(work, input, context)

    def work(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        go_on(context)
        if amnesia():
            raise HoldfastError(AMNESIA)
        done = change(input)
        event = MemoryUpdated(store=done.store, operation=done.operation, digest=done.digest, text=done.text or EMPTY)
        return ToolOutput(content=done.said, metadata={"store": done.store, "bytes": done.size}, events=(event,))

    return run


def knowledge_tools(
    knowledge: Knowledge, *, most: int = MOST, amnesia: Callable[[], bool] = lambda: False
) -> tuple[Tool, ...]:
    """The tools for this knowledge. Their definitions never change, not even where nothing may be written."""

    def recall(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        query = input["query"]
        knowledge.learn()
        hits = _by_id(knowledge, query) or knowledge.search(query, limit=most if most > 0 else MOST)
        whole, named = _whole([hit.entry for hit in hits])
        answer = recalled(query, whole, named)
        events = (_surfaced(whole, estimate(answer), "recall"),) if whole else ()
        ids = [entry.id for entry in whole]
        return ToolOutput(content=answer, metadata={"query": query, "entries": ids}, events=events)

    def add(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        same = knowledge.saying(input["title"], input["content"])
        if same is not None:
            raise HoldfastError(f"{same.id} says this already; nothing was added.")
        entry = knowledge.add(
            input["title"],
            input["content"],
            category=input.get("category", "decision"),
            everywhere=input.get("everywhere", False),
            confidence=input.get("confidence", 1.0),
            source=_source(context),
        )
        return _written(entry, "add", f"Kept as {entry.id}.")

    def replace(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        members = {name: input[name] for name in ("title", "content", "category", "confidence") if name in input}
        if not members:
            raise HoldfastError("nothing to replace was given; give a title, content, category or confidence.")
        entry = knowledge.edit(knowledge.own(input["id"]).id, **members, source=_source(context))
        answer = f"{entry.id} is changed; this is revision {entry.revision}."
        if not members.keys() >= {"title", "content"}:  # somebody may have changed meanwhile what was not given
            answer += "\n" + (catalogue_line(entry) if "content" in members else entry_text(entry))
        return _written(entry, "replace", answer)

    def forget(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        entry = knowledge.forget(knowledge.own(input["id"]).id, source=_source(context))
        return _written(entry, "forget", f"{entry.id} is withdrawn.")

    def writing(work: Work) -> Work:
        def guarded(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            if amnesia():
                raise HoldfastError(AMNESIA)
            return work(input, context)

        return guarded

    by_id, texts = {"id": text()}, {"title": text(), "content": text()}  # what they may be is checked on the way in
    further = {"category": text(), "confidence": number("0 to 1")}
    return (
        _knowledge_tool(RECALL, _RECALL, schema({"query": text("Words, or an id")}), recall, writes=False),
        _knowledge_tool(KNOWLEDGE_ADD, _ADD, schema(texts, {**further, "everywhere": flag()}), writing(add)),
        _knowledge_tool(KNOWLEDGE_REPLACE, _REPLACE, schema(by_id, {**texts, **further}), writing(replace)),
        _knowledge_tool(KNOWLEDGE_FORGET, _FORGET, schema(by_id), writing(forget)),
    )


def _by_id(knowledge: Knowledge, query: str) -> list[Hit]:
    """Return the entry with the query as its id, if it is visible here."""
    id_ = query.strip()
    if len(id_.split()) != 1:
        return []
    entry = knowledge.here(id_)
    return [Hit(entry, 1.0)] if entry is not None and entry.forgotten_at is None else []


def _whole(entries: Sequence[KnowledgeEntry]) -> tuple[list[KnowledgeEntry], list[KnowledgeEntry]]:
    """The entries shown in full, and those shown by their title."""
    room, whole = _WHOLE, 0
    for entry in entries:
        room -= len(entry_text(entry))
        if whole and room < 0:
            break
        whole += 1
    return list(entries[:whole]), list(entries[whole:])


def _source(context: ToolContext) -> str:
    return f"agent:{context.session}"


def _surfaced(entries: Sequence[KnowledgeEntry], tokens: int, why: str) -> MemorySurfaced:
    ids = tuple(entry.id for entry in entries)
    hashes = tuple("" if entry.forgotten_at is not None else entry.hash for entry in entries)
    return MemorySurfaced(entries=ids, hashes=hashes, tokens=tokens, place="recall", why=why)


def _written(entry: KnowledgeEntry, operation: str, answer: str) -> ToolOutput:
    """Return the result of a write. The agent wrote the entry itself, so it is not shown again."""
    updated = MemoryUpdated(store=STORE, operation=operation, entry=entry.id)
    metadata = {"id": entry.id, "revision": entry.revision}
    return ToolOutput(content=answer, metadata=metadata, events=(updated, _surfaced((entry,), 0, "written")))


def _knowledge_tool(name: str, description: str, input_schema: bytes, work: Work, *, writes: bool = True) -> Tool:
    return Tool(
        name=name,
        description=description,
        run=_knowledge_runner(work),
        effect="write" if writes else "read",
        input_schema=input_schema,
        source="builtin",
        core=True,
        exempt=True,  # what was put elsewhere would count as told; an answer is as long as an entry at most, or so
        confirm=False,
    )


def _knowledge_runner(work: Work) -> Run:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(begin, input, context)

    def begin(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        go_on(context)
        return work(input, context)

    return run
