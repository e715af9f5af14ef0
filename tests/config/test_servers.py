"""The tables [mcp.servers.NAME]: where they may stand, how layers go together, what is said of mistakes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.config import Config, load
from holdfast.config.show import as_json, as_text
from holdfast.errors import HoldfastError

OWN = """\
[mcp.servers.tracker]
command = "tracker"
args = ["--token", "s3cret", "--key=s3cret", "serve"]
env = { TRACKER = "s3cret" }
read_only = ["get_*"]
timeout_s = 5
"""


class Place:
    """A home and a workspace of their own."""

    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "work"
        self.home.mkdir()
        self.workspace.mkdir()

    def load(
        self, own: str = "", theirs: str = "", environ: Mapping[str, str] = {}, flags: Mapping[str, object] = {}
    ) -> Config:
        (self.home / "holdfast.toml").write_text(own, encoding="utf-8")
        (self.workspace / "holdfast.toml").write_text(theirs, encoding="utf-8")
        return load(workspace=self.workspace, home=self.home, environ={"HOME": str(self.home), **environ}, flags=flags)

    def problems(self, own: str = "", theirs: str = "", environ: Mapping[str, str] = {}) -> list[str]:
        with pytest.raises(HoldfastError) as refused:
            self.load(own, theirs, environ)
        return str(refused.value).splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_table_is_read_with_its_place(place: Place) -> None:
    (server,) = place.load(OWN).settings.mcp.servers.values()
    assert (server.command, server.args[0], server.env, server.timeout_s) == (
        "tracker",
        "--token",
        {"TRACKER": "s3cret"},
        5,
    )
    assert server.read_only == ("get_*",)
    assert (server.origin, server.project) == (f"{place.home}/holdfast.toml:1", False)


def test_servers_of_all_files_are_used_together(place: Place) -> None:
    servers = place.load(OWN, '[mcp.servers.theirs]\nurl = "http://127.0.0.1:9/mcp"').settings.mcp.servers
    assert {name: server.project for name, server in servers.items()} == {"tracker": False, "theirs": True}


def test_a_workspace_cannot_replace_a_server_of_the_users_own(place: Place) -> None:
    servers = place.load(OWN, '[mcp.servers.tracker]\ncommand = "evil"').settings.mcp.servers
    assert (servers["tracker"].command, servers["tracker"].project) == ("tracker", False)


def test_the_environment_and_flags_are_the_users_own_words(place: Place) -> None:
    table = json.dumps({"tracker": {"command": "other"}})
    theirs = '[mcp.servers.tracker]\ncommand = "theirs"'
    for config in (
        place.load("", theirs, {"HOLDFAST_MCP_SERVERS": table}),
        place.load("", theirs, flags={"mcp.servers": table}),
        place.load("", theirs, flags={"mcp.servers": json.loads(table)}),
    ):
        server = config.settings.mcp.servers["tracker"]
        assert (server.command, server.project) == ("other", False)


def test_an_agent_may_have_servers_of_its_own(place: Place) -> None:
    config = place.load(OWN, '[agents.scout.mcp.servers.maps]\ncommand = "maps"')
    assert set(config.for_agent("scout").mcp.servers) == {"tracker", "maps"}
    assert config.for_agent("scout").mcp.servers["maps"].project
    assert set(config.settings.mcp.servers) == {"tracker"}


def test_a_workspace_cannot_say_that_it_is_trusted(place: Place) -> None:
    (line,) = place.problems(theirs='[mcp]\nproject = "allow"')
    assert line.startswith(f"{place.workspace}/holdfast.toml:2: a workspace cannot set mcp.project")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (
            '[mcp.servers.a]\ncomand = "x"',
            2,
            "unknown key mcp.servers.a.comand; the nearest known name is mcp.servers.a.com",
        ),
        ("[mcp.servers.a]\ncommand = 1", 2, "mcp.servers.a.command is not allowed; it must be one line of text"),
        ('[mcp.servers.a]\ncommand = "x"\nargs = [1]', 3, "mcp.servers.a.args is not allowed; it must be a list"),
        (
            '[mcp.servers.a]\ncommand = "x"\ntimeout_s = 0',
            3,
            "mcp.servers.a.timeout_s is not allowed; it must be a number",
        ),
        ('[mcp.servers.a]\nurl = "ftp://x"', 2, "mcp.servers.a.url is not allowed; it must be an http:// or"),
        ("[mcp.servers.a]\nenabled = true", 1, "mcp.servers.a says neither what to start nor where to connect"),
        ('[mcp.servers.a]\ncommand = "x"\nurl = "http://x"', 1, "mcp.servers.a has both a command and a url"),
        ('[mcp.servers.a]\nurl = "http://x"\nenv = { A = "b" }', 1, "mcp.servers.a has env, which go with a command"),
        ("mcp.servers = 3", 1, "mcp.servers holds one table per server; write [mcp.servers.NAME]"),
        ("[mcp.servers]\na = 3", 2, "mcp.servers holds one table per server; write [mcp.servers.NAME]"),
        ('[mcp.servers."a\\u0007"]\ncommand = "x"', 1, "a server's name has 1 to 64 printable characters"),
        ('[mcp.servers.a]\norigin = "home"\ncommand = "x"', 2, "unknown key mcp.servers.a.origin"),
        ('[mcp.servers.a]\nproject = false\ncommand = "x"', 2, "unknown key mcp.servers.a.project"),
    ],
)
def test_a_mistake_is_told_with_its_line(place: Place, text: str, line: int, problem: str) -> None:
    (told,) = place.problems(text)
    assert told.startswith(f"{place.home}/holdfast.toml:{line}: {problem}")


def test_no_message_and_no_listing_shows_a_secret(place: Place) -> None:
    config = place.load(OWN)
    shown = "\n".join(as_text(config)) + json.dumps(as_json(config))
    assert "s3cret" not in shown
    assert "TRACKER" in shown
    wrong = OWN.replace('"s3cret" }', '["s3cret"] }').replace('"tracker"', "1")
    assert not any("s3cret" in line for line in place.problems(wrong))
    table = json.dumps({"a": {"command": "x", "env": {"A": ["s3cret"]}}})
    assert not any("s3cret" in line for line in place.problems(environ={"HOLDFAST_MCP_SERVERS": table}))
