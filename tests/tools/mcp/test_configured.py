"""Which servers there are: both files, who wins, what a workspace may do unasked, what is said of faults."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.config import load
from holdfast.errors import HoldfastError
from holdfast.tools.mcp import McpServer, approve, approved, revoke, servers


class Place:
    """A home and a workspace of their own, with the files that name servers."""

    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "work"
        self.home.mkdir()
        self.workspace.mkdir()

    def own(self, text: str) -> None:
        (self.home / "holdfast.toml").write_text(text, encoding="utf-8")

    def theirs(self, text: str) -> None:
        (self.workspace / "holdfast.toml").write_text(text, encoding="utf-8")

    def json(self, table: object) -> None:
        text = table if isinstance(table, str) else json.dumps({"mcpServers": table})
        (self.workspace / ".mcp.json").write_text(text, encoding="utf-8")

    def found(self, environ: Mapping[str, str] = {}, **flags: object) -> dict[str, McpServer]:
        given = {name.replace("__", "."): value for name, value in flags.items()}
        config = load(workspace=self.workspace, home=self.home, environ={"HOME": "/home/me"}, flags=given)
        return servers(config.settings, self.workspace, self.home, {"HOME": "/home/me", **environ})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_servers_of_the_users_own_need_no_approval(place: Place) -> None:
    place.own('[mcp.servers.a]\ncommand = "prog"\nargs = ["-x"]\n[mcp.servers.b]\nurl = "http://127.0.0.1:9/mcp"')
    found = place.found()
    assert (found["a"].command, found["a"].args, found["a"].cwd) == ("prog", ("-x",), str(place.workspace))
    assert found["b"].url == "http://127.0.0.1:9/mcp"
    assert not any(server.blocked or server.project for server in found.values())
    assert found["a"].origin == f"{place.home}/holdfast.toml:1"


def test_both_forms_of_mcp_json_are_read(place: Place) -> None:
    place.json(
        {
            "local": {"command": "npx", "args": ["-y", "thing"], "env": {"A": "b"}, "unheardOf": 1},
            "typed": {"type": "stdio", "command": "prog"},
            "remote": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer t"}},
            "bare": {"url": "https://y.example/mcp"},
            "off": {"command": "prog", "disabled": True},
        }
    )
    found = place.found(mcp__project="allow")
    assert (found["local"].command, found["local"].args, found["local"].env) == ("npx", ("-y", "thing"), {"A": "b"})
    assert found["typed"].command == "prog"
    assert (found["remote"].url, found["remote"].headers) == ("https://x.example/mcp", {"Authorization": "Bearer t"})
    assert found["bare"].url == "https://y.example/mcp"
    assert found["off"].blocked == "It is switched off."
    assert not any(found[name].blocked for name in ("local", "typed", "remote", "bare"))


def test_on_equal_names_the_users_file_wins_then_the_workspaces(place: Place) -> None:
    place.json({name: {"command": "json"} for name in ("one", "two", "three")})
    place.theirs('[mcp.servers.one]\ncommand = "theirs"\n[mcp.servers.two]\ncommand = "theirs"')
    place.own('[mcp.servers.one]\ncommand = "own"')
    found = place.found(mcp__project="allow")
    assert {name: server.command for name, server in found.items()} == {"one": "own", "two": "theirs", "three": "json"}


@pytest.mark.parametrize("where", ["json", "toml"])
def test_a_workspaces_server_waits_for_approval_of_exactly_its_definition(place: Place, where: str) -> None:
    def write(argument: str) -> None:
        if where == "json":
            place.json({"a": {"command": "prog", "args": [argument]}})
        else:
            place.theirs(f'[mcp.servers.a]\ncommand = "prog"\nargs = ["{argument}"]')

    write("harmless")
    server = place.found()["a"]
    assert "not approved" in server.blocked
    assert "holdfast mcp --approve a" in server.blocked
    assert server.definition == "prog harmless"
    assert not approved(place.home, server)
    approve(place.home, server)
    assert approved(place.home, server)
    assert not place.found()["a"].blocked
    write("harmful")
    assert "not approved" in place.found()["a"].blocked
    write("harmless")
    assert revoke(place.home, server)
    assert not revoke(place.home, server)
    assert "not approved" in place.found()["a"].blocked


@pytest.mark.parametrize(
    "change",
    [
        {"command": "other"},
        {"args": ["x", "y"]},
        {"env": {"A": "other"}},
        {"env": {"A": "b", "LD_PRELOAD": "evil.so"}},
        {"cwd": "sub"},
        {"command": None, "args": None, "env": None, "url": "http://x"},
    ],
)
def test_every_change_of_what_is_started_asks_again(place: Place, change: dict[str, object]) -> None:
    entry = {"command": "prog", "args": ["x"], "env": {"A": "b"}}
    place.json({"a": entry})
    approve(place.home, place.found()["a"])
    assert not place.found()["a"].blocked
    place.json({"a": entry | change})
    assert "not approved" in place.found()["a"].blocked


def test_what_the_environment_holds_is_not_part_of_the_definition(place: Place) -> None:
    place.json({"a": {"command": "prog", "env": {"TOKEN": "${TOKEN}"}}})
    approve(place.home, place.found({"TOKEN": "one"})["a"])
    found = place.found({"TOKEN": "two"})["a"]
    assert (found.blocked, found.env) == ("", {"TOKEN": "two"})
    assert "two" not in found.definition
    assert "two" not in repr(found)


def test_an_approval_holds_for_its_workspace_only(place: Place, tmp_path: Path) -> None:
    place.json({"a": {"command": "./run.sh"}})
    approve(place.home, place.found()["a"])
    other = tmp_path / "other"
    other.mkdir()
    (other / ".mcp.json").write_bytes((place.workspace / ".mcp.json").read_bytes())
    config = load(workspace=other, home=place.home, environ={"HOME": "/"})
    assert "not approved" in servers(config.settings, other, place.home, {})["a"].blocked


def test_approvals_are_kept_where_only_the_user_can_read_them(place: Place) -> None:
    place.json({"a": {"command": "prog", "args": ["--token=s3cret"]}})
    approve(place.home, place.found()["a"])
    file = place.home / "mcp-approved.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cret" not in file.read_text()
    file.write_text("{")
    assert "not approved" in place.found()["a"].blocked
    with pytest.raises(HoldfastError, match=r"mcp-approved\.json cannot be read"):
        approve(place.home, place.found()["a"])


def test_a_workspaces_servers_can_be_allowed_or_refused_altogether(place: Place) -> None:
    place.json({"a": {"command": "prog"}})
    place.theirs('[mcp.servers.b]\ncommand = "prog"')
    assert not any(server.blocked for server in place.found(mcp__project="allow").values())
    refused = place.found(mcp__project="never")
    assert set(refused) == {"b"}
    assert 'mcp.project is "never"' in refused["b"].blocked
    place.json("this is no JSON")
    assert set(place.found(mcp__project="never")) == {"b"}


def test_variables_are_replaced_in_every_part(place: Place) -> None:
    place.own(
        '[mcp.servers.a]\ncommand = "${BIN}/prog"\nargs = ["${A}-${B:-two}", "${C:-}"]\n'
        'env = { T = "${T}" }\ncwd = "~/x"\n'
        '[mcp.servers.b]\nurl = "${BASE:-http://x.example}/mcp"\nheaders = { Authorization = "Bearer ${T}" }'
    )
    found = place.found({"BIN": "/opt", "A": "one", "B": "", "T": "secret"})
    assert (found["a"].command, found["a"].args, found["a"].env) == ("/opt/prog", ("one-two", ""), {"T": "secret"})
    assert found["a"].cwd == "/home/me/x"
    assert (found["b"].url, found["b"].headers) == ("http://x.example/mcp", {"Authorization": "Bearer secret"})


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"type": "sse", "url": "http://x/sse"}, "it speaks the old SSE transport only, which is not supported"),
        ({"command": "${NOT_SET}"}, "the variable NOT_SET is not set; set it, or write ${NOT_SET:-default}"),
        ({"url": "${BASE}"}, "its url is no http:// or https:// address"),
        ({"command": 5}, "its command is not allowed; it must be one line of text"),
        ({"command": "x", "env": {"A": 1}}, "its env is not allowed; it must be a table whose values are texts"),
        ({"url": "ftp://x"}, "its url is not allowed"),
        ({}, "says neither what to start nor where to connect"),
        ("prog", "it is no table"),
        ({"command": "x", "env": {"A=B": "c"}}, "holds what no program can be given"),
        ({"url": "http://x", "headers": {"A": "${LINES}"}}, "a header of it is not one line of text"),
        ({"command": "/usr/bin/holdfast", "args": ["mcp"]}, "it is Holdfast itself"),
        ({"command": "python", "args": ["-m", "holdfast", "mcp"]}, "it is Holdfast itself"),
    ],
)
def test_one_bad_server_says_why_and_the_others_are_used(place: Place, entry: object, why: str) -> None:
    place.json({"bad": entry, "good": {"command": "prog"}})
    found = place.found({"LINES": "a\r\nb", "BASE": "nowhere"}, mcp__project="allow")
    assert why in found["bad"].blocked
    assert str(place.workspace / ".mcp.json") in found["bad"].blocked
    assert not found["good"].blocked


@pytest.mark.parametrize(
    ("text", "place_and_problem"),
    [
        ('{\n "mcpServers": {,}\n}', ":2: this is not valid JSON"),
        ("[]", ': this file holds {"mcpServers": {NAME: {…}}}'),
        ('{"mcpServers": []}', ': this file holds {"mcpServers": {NAME: {…}}}'),
        ("[" * 200_000, ": this JSON cannot be read"),
        (" " * 1_000_001, ": the file is larger than 1 MB"),
    ],
)
def test_a_bad_file_is_told_with_its_place(place: Place, text: str, place_and_problem: str) -> None:
    place.json(text)
    with pytest.raises(HoldfastError) as refused:
        place.found()
    assert f"{place.workspace}/.mcp.json{place_and_problem}" in str(refused.value)


def test_a_file_that_is_none(place: Place) -> None:
    assert place.found() == {}
    (place.workspace / ".mcp.json").mkdir()
    with pytest.raises(HoldfastError, match="not a regular file"):
        place.found()


def test_a_file_that_is_not_text(place: Place) -> None:
    (place.workspace / ".mcp.json").write_bytes(b'{"mcpServers": "\xff"}')
    with pytest.raises(HoldfastError, match="not UTF-8"):
        place.found()


def test_a_name_that_cannot_be_one(place: Place) -> None:
    place.json({"a\n" + "b" * 80: {"command": "x"}, "": {"command": "x"}})
    found = place.found(mcp__project="allow")
    assert len(found) == 2
    assert all("printable characters" in server.blocked for server in found.values())


def test_a_workspace_whose_path_is_not_text_can_be_approved(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.workspace = Path(os.fsdecode(os.fsencode(tmp_path) + b"/w\xff"))
    try:
        place.workspace.mkdir()
    except OSError:
        pytest.skip("this file system takes no such name")
    place.json({"a": {"command": "prog"}})
    (server,) = place.found().values()
    assert "not approved" in server.blocked
    approve(place.home, server)
    assert place.found()["a"].blocked == ""
