"""Finding tools: by name, by server, by words; always the same answer, whatever a query looks like."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.tools import search
from holdfast.tools.search import ToolIndex, parameters, words
from tests.tools.catalogue import catalogue, made

TOOLS = catalogue()
INDEX = ToolIndex(TOOLS)


def names(query: str, limit: int = 5, index: ToolIndex = INDEX) -> list[str]:
    return [tool.name.removeprefix("mcp__") for tool in index.find(query, limit).tools]


# C51: words, ranked by BM25


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("create issue", "github__create_issue"),
        ("open a bug report issue in the repository", "github__create_issue"),
        ("create_pull_request", "github__create_pull_request"),
        ("merge PR pull request", "github__merge_pull_request"),
        ("show the diff of a pull request", "github__get_pull_request_diff"),
        ("rerun failed CI jobs", "github__rerun_failed_jobs"),
        ("who should review this", "github__request_reviewers"),
        ("send a message to a slack channel", "slack__post_message"),
        ("react with an emoji", "slack__add_reaction"),
        ("schedule a meeting with attendees", "calendar__create_event"),
        ("when are several people available", "calendar__find_free_slots"),
        ("cancel the meeting", "calendar__delete_event"),
        ("execution plan of SQL", "postgres__explain_query"),
        ("columns and types of a table", "postgres__describe_table"),
        ("screenshot", "browser__take_screenshot"),
        ("screenshots of pages", "browser__take_screenshot"),
        ("pod logs", "kubernetes__getPodLogs"),
        ("scale deployment replicas", "kubernetes__scaleDeployment"),
        ("scaleDeployment", "kubernetes__scaleDeployment"),
        ("refund a payment", "billing__refund-payment"),
        ("refund-payment", "billing__refund-payment"),
        ("cancelling subscriptions", "billing__cancel-subscription"),
        ("dim the lamps", "home__lights.set"),
        ("lights.set", "home__lights.set"),
        ("robot clean floor", "home__vacuum.start"),
        ("mail with attachments", "send_email"),
        ("will it rain", "get_weather"),
        ("plot a graph", "render_chart"),
        ("euro to dollar", "convert_currency"),
        ("translating into another language", "translate_text"),
        ("dryRun", "kubernetes__applyManifest"),
        ("thread_ts", "slack__reply_to_thread"),
    ],
)
def test_c51_words_find_what_they_mean(query: str, best: str) -> None:
    assert names(query)[0] == best


@pytest.mark.parametrize(
    ("query", "among"),
    [
        (
            "pull request",
            {"github__create_pull_request", "github__merge_pull_request", "github__get_pull_request_diff"},
        ),
        ("table", {"postgres__describe_table", "postgres__vacuum_table", "postgres__list_tables"}),
        ("meeting", {"calendar__create_event", "calendar__update_event", "calendar__delete_event"}),
        ("vacuum", {"postgres__vacuum_table", "home__vacuum.start"}),
        ("brightness", {"home__lights.set"}),
    ],
)
def test_c51_all_that_match_are_among_the_first(query: str, among: set[str]) -> None:
    assert among <= set(names(query))


def test_no_more_than_the_limit() -> None:
    assert [len(names("list", limit)) for limit in (1, 3, 20)] == [1, 3, len(names("list", 63))]
    assert names("list", 3) == names("list", 20)[:3]
    assert len(names("list", 0)) == 1


def test_what_only_shares_a_common_word_is_left_out() -> None:
    """Its definition would be paid for with every request from then on."""
    assert names("rerun failed CI jobs of a run", 20) == ["github__rerun_failed_jobs"]
    assert names("react to a message with an emoji", 20) == ["slack__add_reaction", "slack__post_message"]
    assert len(names("message", 20)) > 2, "all that match equally well are found"


def test_a_tool_s_own_name_comes_first() -> None:
    for tool in TOOLS:
        assert INDEX.find(tool.name).tools[0] is tool


def test_a_part_of_a_word_finds_something_where_no_word_does() -> None:
    assert names("kuberne") == names("kubernetes", 5)
    assert names("screensh") == ["browser__take_screenshot"]


def test_what_nobody_offers_is_not_found() -> None:
    assert names("photosynthesis zebra") == []
    assert ToolIndex([]).find("anything").tools == ()


# Names and servers


def test_selected_names_come_in_their_order_and_unknown_ones_are_told() -> None:
    found = INDEX.find("select:send_email, mcp__home__door.lock,nope,send_email,  get_weather ", 1)
    assert [tool.name for tool in found.tools] == ["send_email", "mcp__home__door.lock", "get_weather"]
    assert (found.unknown, found.selected) == (("nope",), True)
    assert INDEX.find('SELECT: "send_email"').tools[0].name == "send_email"
    assert INDEX.find("select:") == INDEX.find("select: , ,")
    assert INDEX.find("select:Send_Email").unknown == ("Send_Email",)


def test_a_server_s_name_gives_its_tools() -> None:
    for query in ("home", "HOME ", "server:home", "server: Home"):
        assert names(query, 20) == [
            "home__door.lock",
            "home__heating.set",
            "home__lights.set",
            "home__music.play",
            "home__vacuum.start",
        ]
    few = INDEX.find("github", 5)
    assert (len(few.tools), few.more) == (5, 7)
    assert names("server:nobody") == []
    assert names("github issue")[0].startswith("github__")


# The same answer for the same question


def test_the_order_of_the_tools_makes_no_difference() -> None:
    queries = ["list", "set", "create", "a table of issues", "channel", "github", "mcp"]
    expected = [names(query, 20) for query in queries]
    for seed in range(5):
        shuffled = random.Random(seed).sample(TOOLS, len(TOOLS))
        index = ToolIndex(shuffled)
        assert [names(query, 20, index) for query in queries] == expected


def test_ties_are_broken_by_name() -> None:
    same = [made(f"tool_{letter}", "does a thing", "x") for letter in "hgfedcbaji"]
    assert names("thing", 4, ToolIndex(same)) == ["tool_a", "tool_b", "tool_c", "tool_d"]


# Odd queries

ODD = [
    "",
    "   ",
    '"unclosed',
    "name:create AND (",
    "+issue -comment",
    "a~2 b^3 [x TO y] {1}",
    "*",
    "issue*",
    "\\",
    "select",
    "server:",
    "😀 🧹",
    "créer une réunion",
    "会議を予定する",
    "\x00\x01",
    "half \ud83d",
    "issue " * 2_000,
    "x" * 10_240,
    " ".join(f"word{number}" for number in range(3_000)),
    "NOT",
    "../../etc/passwd",
    "name",
]


@pytest.mark.parametrize("query", ODD, ids=lambda query: ascii(query[:20]))
def test_odd_queries_never_fail(query: str) -> None:
    found = INDEX.find(query)
    assert len(found.tools) <= 5
    assert found == INDEX.find(query)


def test_signs_between_words_do_not_matter() -> None:
    for query in (
        '"create issue"',
        "create:issue",
        "(create) [issue]",
        "create_issue",
        "createIssue",
        "CREATE, ISSUE!",
    ):
        assert names(query)[0] == "github__create_issue"


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.text("select:server, _-.\"'()[]{}+-~^*?:\\/😀éÜ", max_size=80), st.integers(-3, 30))
def test_any_text_is_a_query(query: str, limit: int) -> None:
    found = INDEX.find(query, limit)
    assert found.selected or len(found.tools) <= max(1, limit)
    assert len(set(map(id, found.tools))) == len(found.tools)


def test_odd_tools_can_be_indexed() -> None:
    odd = [
        made("", "", ""),
        made("half \ud83d", "\ud83d \x00", ""),
        made("x" * 5_000, "y " * 100_000, ""),
        search.Tool(name="broken", description="d", run=TOOLS[0].run, effect="none", input_schema=b"{"),
        search.Tool(name="deep", description="d", run=TOOLS[0].run, effect="none", input_schema=b"[" * 5_000),
        search.Tool(name="list", description="d", run=TOOLS[0].run, effect="none", input_schema=b"[1]"),
    ]
    index = ToolIndex([*odd, *TOOLS])
    assert names("create issue", 5, index)[0] == "github__create_issue"
    assert names("broken", 5, index) == ["broken"]


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mcp__github__create_issue", "mcp github create issue"),
        ("getPodLogs", "get pod logs getpodlogs"),
        ("HTTPServerError", "http server error httpservererror"),
        ("lights.set-now", "lights set now"),
        ("v2Api3", "v2 api3 v2api3"),
        ("Ünïcode straße", "ünïcode strasse"),
        ("e-mail/SMTP (tls)", "e mail smtp tls"),
        ("__--..", ""),
    ],
)
def test_words_of_a_name(text: str, expected: str) -> None:
    assert " ".join(words(text)) == expected


def test_parameters_are_found_at_any_depth() -> None:
    schema = b'{"properties":{"a":{"properties":{"b":{}}},"c":{"items":{"properties":{"d":{}}}}},"required":["a"]}'
    assert sorted(parameters(schema)) == ["a", "b", "c", "d"]
    assert parameters(b'"x"') == parameters(b"nonsense") == []


# The library


def test_names_and_servers_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    index = ToolIndex(TOOLS)
    assert names("select:send_email", 5, index) == ["send_email"]
    assert names("home", 1, index) == ["home__door.lock"]
    with pytest.raises(HoldfastError, match=r"pip install 'holdfast\[agent\]'"):
        index.find("send a mail")


def test_the_library_is_imported_when_it_is_needed() -> None:
    code = "import sys, holdfast.tools.search, holdfast.tools.discovery; sys.exit('tantivy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_index_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[search.WordIndex] = []
    real = search.WordIndex
    monkeypatch.setattr(search, "WordIndex", lambda *given, **more: built.append(real(*given, **more)) or built[-1])
    index = ToolIndex(TOOLS)
    assert index.unbuilt
    index.find("select:send_email")
    assert index.unbuilt
    index.find("mail")
    index.find("issue")
    assert len(built) == 1
    assert not index.unbuilt
