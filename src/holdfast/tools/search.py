"""Finding tools by name and description: exact names, a server's tools, or BM25 over words.

A function of the tools alone: their order does not matter, and the same query always gives the same answer. Queries
come from a model and have no syntax; they are only split into words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unicodedata import normalize

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError

from .contract import Tool
from .text_limits import mend

SELECT, SERVER = "select:", "server:"

_LONGEST_QUERY = 2_000
_MOST_WORDS = 32
"""Different words of a query that are looked for; a model's question has a dozen."""
_LONGEST_WORD = 40
_LONGEST_TEXT = 20_000
_MOST_PARAMETERS = 200

_WEIGHTS = {"name": 2.0, "hints": 1.5, "description": 1.0, "parameters": 0.9}
"""The weight of a word in each field; a name is the most specific. Of the fields with a word the best counts, so that a
tool with two of the words ranks above one that has one of them everywhere."""

_SHARE = 0.35
"""The least share of the best tool's score. Below it a tool shares a common word with the query, and its definition
would be paid for with every later request: in tests with sixty tools and paraphrased queries, a third fewer definitions
for one more search in twenty."""

COMMON = frozenset(
    re.findall(
        r"\w+",
        "a about an and any are as at be but by can could did do does for from get give had has have how i if in "
        "into is it its let like may me might my need of on or our please should so some than that the their them "
        "then there these they this those to us use want was we were what when where which who why will with would "
        "you your",
    )
)
"""Stop words of a query, ignored unless there are no others."""

_HEAP, _TOKENIZER = 15_000_000, "tools"
_word = re.compile(r"[^\W_]+")
_camel = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ToolMatches(Struct, frozen=True, kw_only=True):
    """What a query gives. `unknown` are names that were asked for and do not exist, `more` counts tools that match and
    are left out, `selected` if tools were asked for by their names."""

    tools: tuple[Tool, ...] = ()
    unknown: tuple[str, ...] = ()
    more: int = 0
    selected: bool = False


class ToolIndex:
    """An index in memory over a fixed set of tools. It is built by the first query that needs one."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tuple(sorted(tools, key=lambda tool: tool.name))
        self.servers = tuple(sorted({tool.server for tool in self.tools if tool.server}))
        self._by_name = {tool.name: tool for tool in self.tools}
        self._index: WordIndex | None = None

    @property
    def unbuilt(self) -> bool:
        """Whether a query by words has to wait for the index: a few dozen milliseconds for hundreds of tools."""
        return self._index is None

    def find(self, query: str, limit: int = 5) -> ToolMatches:
        """The tools that a query means, best first. `select:a,b` gives the tools of those names in that order, however
        many, the name of a server or `server:NAME` its tools by name, anything else what its words find."""
        query, limit = mend(query[:_LONGEST_QUERY]).strip(), max(1, limit)
        if query[: len(SELECT)].lower() == SELECT:
            return self._selected(query[len(SELECT) :])
        if query[: len(SERVER)].lower() == SERVER:
            return self._of_server(query[len(SERVER) :].strip(), limit)
        if (of_server := self._of_server(query, limit)).tools:
            return of_server
        return self._by_words(query, limit)

    def _selected(self, names: str) -> ToolMatches:
        requested = list(dict.fromkeys(name for part in names.split(",") if (name := part.strip(" \t\r\n\"'`[]"))))
        tools = tuple(self._by_name[name] for name in requested if name in self._by_name)
        unknown = tuple(name for name in requested if name not in self._by_name)
        return ToolMatches(tools=tools, unknown=unknown, selected=True)

    def _of_server(self, name: str, limit: int) -> ToolMatches:
        tools = tuple(tool for tool in self.tools if tool.server and tool.server.casefold() == name.casefold())
        return ToolMatches(tools=tools[:limit], more=max(0, len(tools) - limit))

    def _by_words(self, query: str, limit: int) -> ToolMatches:
        terms = meant(words(query))
        if not self.tools or not terms:
            return ToolMatches()
        if self._index is None:
            self._index = _index(self.tools)
        places = self._index.search(terms, limit, share=_SHARE)
        if not places:
            places = [at for at, tool in enumerate(self.tools) if _contains(tool, terms)][:limit]
        tools = [self.tools[at] for at in places]
        exact = self._by_name.get(query)
        if exact is not None:
            tools = [exact, *(tool for tool in tools if tool is not exact)][:limit]
        return ToolMatches(tools=tuple(tools))


def meant(terms: Iterable[str]) -> list[str]:
    """The words of a query that are looked for, each once."""
    every = list(dict.fromkeys(terms))
    return ([word for word in every if word not in COMMON] or every)[:_MOST_WORDS]


def words(text: str) -> Iterator[str]:
    """Split a text or name into lower-case words: at _, -, ., spaces and punctuation; names with inner capitals also
    into their parts."""
    for run in _word.findall(normalize("NFKC", text[:_LONGEST_TEXT])):
        parts = _camel.split(run)
        for word in parts if len(parts) == 1 else (*parts, run):
            yield word.casefold()[:_LONGEST_WORD]


def parameters(schema: bytes) -> list[str]:
    """The names of a tool's parameters, inner ones too; none of a schema that cannot be read."""
    try:
        waiting: list[Any] = [msgspec.json.decode(schema)]
    except (msgspec.DecodeError, RecursionError):
        return []
    names: list[str] = []
    while waiting and len(names) < _MOST_PARAMETERS:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            inner = value.get("properties")
            if isinstance(inner, dict):
                names += inner
            waiting += value.values()
    return names[:_MOST_PARAMETERS]


def _contains(tool: Tool, terms: Sequence[str]) -> bool:
    """Return whether a tool's text contains a term as a part of a word."""
    text = f"{tool.name} {tool.description}".casefold()
    return any(word in text for word in terms if len(word) > 2)


class WordIndex:
    """tantivy's index of texts by their places; `weights` names the fields of each. One thread writes one segment, so
    that ties are always broken in the texts' own order. ImportError without the library."""

    def __init__(self, texts: Sequence[Mapping[str, str]], weights: Mapping[str, float]) -> None:
        import tantivy

        self._tantivy: Any = tantivy
        self._weights = dict(weights)
        self._analyzer = self._make_analyzer()
        builder = self._tantivy.SchemaBuilder()
        for field in self._weights:
            builder.add_text_field(field, tokenizer_name=_TOKENIZER, index_option="freq")
        builder.add_unsigned_field("at", stored=True)
        self._schema = builder.build()
        index = self._tantivy.Index(self._schema)
        index.register_tokenizer(_TOKENIZER, self._make_analyzer())
        writer = index.writer(_HEAP, 1)
        for at, fields in enumerate(texts):
            document = {field: " ".join(words(mend(text))) for field, text in fields.items()}
            writer.add_document(self._tantivy.Document(at=at, **document))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._searcher = index.searcher()

    def _make_analyzer(self) -> Any:
        builder = self._tantivy.TextAnalyzerBuilder(self._tantivy.Tokenizer.whitespace())
        return builder.filter(self._tantivy.Filter.stemmer("english")).build()

    def search(self, terms: Sequence[str], limit: int, *, share: float = 0.0) -> list[int]:
        """The places of the best: no more than the limit, and none that has less than this share of the best score."""
        make, should = self._tantivy.Query, self._tantivy.Occur.Should
        stems = dict.fromkeys(self._analyzer.analyze(" ".join(terms)))
        clauses = [
            (should, make.disjunction_max_query([self._term(field, stem) for field in self._weights], 0.1))
            for stem in stems
        ]
        hits = self._searcher.search(make.boolean_query(clauses), limit, count=False).hits
        least = share * max((score for score, _ in hits), default=0)
        ranked = [(-score, int(self._searcher.doc(address)["at"][0])) for score, address in hits if score >= least]
        return [at for _, at in sorted(ranked)]

    def _term(self, field: str, stem: str) -> Any:
        make = self._tantivy.Query
        return make.boost_query(make.term_query(self._schema, field, stem, "freq"), self._weights[field])


def _index(tools: Sequence[Tool]) -> WordIndex:
    try:
        return WordIndex([_fields(tool) for tool in tools], _WEIGHTS)
    except ImportError as error:
        raise HoldfastError(
            "searching for tools by words needs the library tantivy; install it with pip install 'holdfast[agent]'."
        ) from error


def _fields(tool: Tool) -> dict[str, str]:
    return {
        "name": tool.name,
        "hints": " ".join(tool.hints),
        "description": tool.description,
        "parameters": " ".join(parameters(tool.input_schema)),
    }
