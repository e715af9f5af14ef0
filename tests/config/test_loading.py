"""Where values come from and which of them wins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from keyword import iskeyword
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from holdfast.config import KEYS, Config, Key, load, load_config
from holdfast.config.keys import SERVERS
from holdfast.config.parse import shown
from holdfast.errors import HoldfastError

TEXTS = {
    "upstream": "http://127.0.0.1:9/base",
    "store": "sqlite:////data/x.db",
    "agent": "anthropic:some-model",
}
TABLES: dict[str, dict[str, object]] = {
    "cache.retention_overrides": {"claude-haiku": "none", "gpt": "short"},
    "tools.offload.per_tool": {"grep_files": 5},
}
LISTS: dict[str, tuple[str, ...]] = {"gateway.origins": ("http://one", "app://two")}


def other(key: Key) -> object:
    """An allowed value that is not the default."""
    if key.kind == "boolean":
        return not key.default
    if key.kind == "whole":
        return (key.default or 0) + 1
    if key.kind == "number":
        return (key.default or 1.0) / 2
    if key.kind == "choice":
        return next(choice for choice in key.choices if choice != key.default)
    if key.kind == "list":
        return LISTS.get(key.name, ("one", "two"))
    return TABLES[key.name] if key.kind == "table" else TEXTS.get(key.section, "elsewhere")


def text_of(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return json.dumps(value) if isinstance(value, (dict, bool)) else str(value)


class Place:
    """A home and a workspace of their own, and what is set in them."""

    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "work"
        self.home.mkdir()
        self.workspace.mkdir()
        self.environ: dict[str, str] = {"HOME": str(root)}

    def write(self, folder: Path, text: str) -> Path:
        path = folder / "holdfast.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, flags: Mapping[str, object] = {}) -> Config:
        return load(workspace=self.workspace, home=self.home, environ=self.environ, flags=flags)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def at(config: Config, name: str) -> object:
    value: object = config.settings
    for part in name.split("."):
        value = getattr(value, f"{part}_" if iskeyword(part) else part)
    return value


# MCP servers are tables of their own kind: tests/config/test_servers.py.
PLAIN = {name: key for name, key in KEYS.items() if name != SERVERS}
every_key = pytest.mark.parametrize("key", PLAIN.values(), ids=list(PLAIN))


@every_key
def test_every_key_can_be_set_in_a_file(place: Place, key: Key) -> None:
    folder = place.home if key.guarded else place.workspace
    path = place.write(folder, f"# a comment\n{key.name} = {shown(other(key))}\n")
    config = place.load()
    assert at(config, key.name) == other(key) != key.default
    assert str(config.origin(key.name)) == f"{path}:2"
    assert [name for name in KEYS if config.origin(name).kind != "default"] == [key.name]


@every_key
def test_every_key_can_be_set_in_the_environment(place: Place, key: Key) -> None:
    place.environ[key.variable] = text_of(other(key))
    config = place.load()
    assert at(config, key.name) == other(key)
    assert str(config.origin(key.name)) == f"environment {key.variable}"


@every_key
def test_every_key_can_be_set_by_a_flag_typed_or_as_text(place: Place, key: Key) -> None:
    for given in (other(key), text_of(other(key))):
        config = place.load({key.name: given})
        assert at(config, key.name) == other(key)
        assert str(config.origin(key.name)) == f"flag {key.name}"


@every_key
def test_every_key_can_be_set_for_one_agent(place: Place, key: Key) -> None:
    path = place.write(place.home, f"[agents.scout]\n{key.name} = {shown(other(key))}\n")
    config = place.load()
    assert config.values("scout")[key.name].value == other(key)
    assert str(config.origin(key.name, "scout")) == f"{path}:2 [agents.scout]"
    assert config.origin(key.name).kind == "default"


def test_without_anything_set_all_values_are_defaults(place: Place) -> None:
    config = place.load()
    assert {config.origin(name).kind for name in KEYS} == {"default"}
    assert config.files == ()
    assert config.agents == ()


def test_the_later_place_wins(place: Place) -> None:
    """Defaults, home, workspace, the agent's blocks (home, workspace), environment, flags."""

    def port(agent: str | None = None, **flags: object) -> object:
        return (
            place.load({name.replace("__", "."): value for name, value in flags.items()})
            .values(agent)["gateway.port"]
            .value
        )

    assert port() == 8788
    place.write(place.home, "gateway.port = 1")
    assert port() == 1
    place.write(place.workspace, "gateway.port = 2")
    assert port() == 2
    place.write(place.home, "gateway.port = 1\nagents.scout.gateway.port = 3")
    assert (port(), port("scout"), port("another")) == (2, 3, 2)
    place.write(place.workspace, "gateway.port = 2\nagents.scout.gateway.port = 4")
    assert (port(), port("scout")) == (2, 4)
    place.environ["HOLDFAST_GATEWAY_PORT"] = "5"
    assert (port(), port("scout")) == (5, 5)
    assert (port(gateway__port=6), port("scout", gateway__port=6)) == (6, 6)


def test_an_agent_sees_its_block_and_everything_else_as_it_is(place: Place) -> None:
    place.write(place.workspace, '[cache]\nrepair = "on"\n[agents.scout.cache]\nstrategy = "rolling"\n')
    config = place.load()
    assert config.agents == ("scout",)
    assert config.for_agent("scout").cache.strategy == "rolling"
    assert config.for_agent("scout").cache.repair == "on"
    assert config.for_agent("without a block") == config.settings
    assert config.settings.cache.strategy == "economic"


def test_lists_and_tables_are_replaced_not_merged(place: Place) -> None:
    place.write(place.home, 'cache.retention_overrides = {a = "none"}\ntools.deferral.never = ["x"]')
    place.write(place.workspace, '[cache.retention_overrides]\nb = "long"\n[tools.deferral]\nnever = ["y"]')
    settings = place.load().settings
    assert settings.cache.retention_overrides == {"b": "long"}
    assert settings.tools.deferral.never == ("y",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("YES", True),
        ("1", True),
        ("false", False),
        ("No", False),
        ("0", False),
        (" yes ", True),
    ],
)
def test_booleans_in_the_environment(place: Place, text: str, value: bool) -> None:
    place.environ["HOLDFAST_STORE_KEEP_BODIES"] = text
    assert place.load().settings.store.keep_bodies is value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("gateway.limits.body_bytes", "1_000_000", 1_000_000),
        ("gateway.port", "+80", 80),
        ("gateway.limits.idle_s", "2.5", 2.5),
        ("gateway.limits.idle_s", "1e2", 100.0),
        ("gateway.limits.idle_s", "1_000", 1000.0),
        ("tools.deferral.never", "a, b ,,c", ("a", "b", "c")),
        ("tools.deferral.never", "['a', \"b,c\"]", ("a", "b,c")),
        ("tools.deferral.never", "[]", ()),
        ("cache.retention_overrides", '{"gpt": "short"}', {"gpt": "short"}),
        ("cache.retention_overrides", 'gpt = "short"', None),
        ("cache.retention_overrides", "{ gpt = 'short' }", {"gpt": "short"}),
        ("tools.offload.max_result_chars", "unset", None),
        ("agent.model", "unset", None),
    ],
)
def test_texts_are_converted_to_the_type_of_the_key(place: Place, name: str, text: str, value: object) -> None:
    if value is None and not KEYS[name].optional:
        with pytest.raises(HoldfastError, match="a table whose values are"):
            place.load({name: text})
        return
    found = at(place.load({name: text}), name)
    assert found == value
    assert type(found) is type(value)


def test_a_whole_number_in_a_file_is_fine_where_any_number_is_allowed(place: Place) -> None:
    place.write(place.workspace, "gateway.limits.idle_s = 5")
    idle = place.load().settings.gateway.limits.idle_s
    assert idle == 5.0
    assert isinstance(idle, float)


def test_unset_takes_back_what_a_lower_layer_set(place: Place) -> None:
    place.write(place.home, "tools.offload.max_result_chars = 5")
    assert place.load().settings.tools.offload.max_result_chars == 5
    place.write(place.workspace, 'tools.offload.max_result_chars = "unset"')
    config = place.load()
    assert config.settings.tools.offload.max_result_chars is None
    assert config.origin("tools.offload.max_result_chars").kind == "file"


def test_empty_variables_and_flags_that_were_not_given_count_as_not_set(place: Place) -> None:
    place.environ["HOLDFAST_GATEWAY_PORT"] = " "
    assert place.load({"gateway.port": None}).origin("gateway.port").kind == "default"


def test_reserved_and_foreign_variables_are_left_alone(place: Place) -> None:
    place.environ |= {
        "HOLDFAST_HOME": "/x",
        "HOLDFAST_TRACEBACK": "1",
        "HOLDFAST_TEST_POSTGRES": "x",
        "PATH": "/bin",
        "HOLDFASTX": "1",
    }
    assert {place.load().origin(name).kind for name in KEYS} == {"default"}


def test_paths_know_the_home_of_holdfast_and_of_the_user(place: Place, tmp_path: Path) -> None:
    settings = place.load().settings
    assert settings.cache.breaks.dir == f"{place.home}/cache-breaks"
    assert settings.store.url == f"sqlite:///{place.home}/holdfast.db"
    assert settings.skills.roots == (f"{place.home}/skills", ".holdfast/skills")
    config = place.load({"cache.breaks.dir": "~/b", "skills.roots": "~,HOLDFAST_HOMES/x", "store.url": "sqlite:///~/s"})
    assert config.settings.cache.breaks.dir == f"{tmp_path}/b"
    assert config.settings.skills.roots == (str(tmp_path), "HOLDFAST_HOMES/x")
    assert config.settings.store.url == f"sqlite:///{tmp_path}/s"


def test_a_workspace_may_name_its_own_roots_of_skills_and_those_where_people_have_theirs(
    place: Place, tmp_path: Path
) -> None:
    named = '".claude/skills", "HOLDFAST_HOME/skills", "~/.claude/skills", "~/.agents/skills/"'
    (place.workspace / "holdfast.toml").write_text(f"skills.roots = [{named}]\n")
    assert place.load().settings.skills.roots == (
        ".claude/skills",
        f"{place.home}/skills",
        f"{tmp_path}/.claude/skills",
        f"{tmp_path}/.agents/skills/",
    )
    config = place.load({"skills.roots": "/srv/skills,../beside"})
    assert config.settings.skills.roots == ("/srv/skills", "../beside")


def test_a_home_with_odd_characters_stays_one_address(tmp_path: Path) -> None:
    home = tmp_path / "50% off?#"
    config = load(workspace=None, home=home, environ={"HOME": str(tmp_path)})
    assert unquote(urlsplit(config.settings.store.url).path)[1:] == f"{home}/holdfast.db"


def test_relative_paths_belong_to_the_workspace(place: Place) -> None:
    assert place.load().path("x/y") == place.workspace / "x/y"
    assert place.load().path("/x/y") == Path("/x/y")
    assert load(workspace=None, home=place.home, environ=place.environ).path("x") == Path("x")


def test_only_path_keys_are_expanded(place: Place) -> None:
    assert place.load({"gateway.host": "~/x"}).settings.gateway.host == "~/x"


@pytest.mark.parametrize(
    ("named", "found"),
    [(None, ".holdfast"), ("", ".holdfast"), ("~", "."), ("~/conf", "conf"), ("{root}/conf", "conf")],
)
def test_the_home_of_holdfast_comes_from_the_environment(tmp_path: Path, named: str | None, found: str) -> None:
    folder = tmp_path / found
    folder.mkdir(exist_ok=True)
    (folder / "holdfast.toml").write_text("gateway.port = 7")
    environ = {"HOME": str(tmp_path)}
    if named is not None:
        environ["HOLDFAST_HOME"] = named.format(root=tmp_path)
    config = load(workspace=None, home=None, environ=environ)
    assert config.home == folder
    assert config.settings.gateway.port == 7


def test_a_relative_home_is_taken_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(workspace=None, home=None, environ={"HOLDFAST_HOME": "conf", "HOME": "/nowhere"})
    assert config.home == tmp_path / "conf"


def test_a_workspace_that_is_the_home_is_read_once(place: Place) -> None:
    path = place.write(place.home, "gateway.port = 7")
    config = load(workspace=place.home, home=place.home, environ=place.environ)
    assert config.files == (str(path),)


def test_load_here_reads_the_current_directory_and_the_environment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(place.workspace, "gateway.port = 7")
    monkeypatch.chdir(place.workspace)
    monkeypatch.setenv("HOLDFAST_HOME", str(place.home))
    monkeypatch.setenv("HOLDFAST_CACHE_STRATEGY", "rolling")
    config = load_config({"memory.inject": True})
    assert (config.settings.gateway.port, config.settings.cache.strategy) == (7, "rolling")
    assert config.settings.memory.inject is True


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(place: Place) -> None:
    (place.workspace / "holdfast.toml").write_bytes(b"\xef\xbb\xbf[gateway]\r\nport = 7\r\n")
    config = place.load()
    assert config.settings.gateway.port == 7
    assert config.origin("gateway.port").line == 2


def test_lines_are_found_past_long_strings_quoted_names_and_inline_tables(place: Place) -> None:
    place.write(
        place.workspace,
        'cache.breaks.dir = """\\\nport = 1\\\n"""\n'
        '["gateway"]\n"port" = 7\n'
        "limits = {idle_s = 3,\n connect_s = 4}\n"
        "[agents.'a b'.gateway]\nport = 8\n".replace(",\n", ", "),
    )
    config = place.load()
    assert config.settings.cache.breaks.dir == "port = 1"
    assert config.origin("cache.breaks.dir").line == 1
    assert config.origin("gateway.port").line == 5
    assert config.origin("gateway.limits.connect_s").line == 6
    assert config.origin("gateway.port", "a b").line == 8


def test_the_origin_of_an_unknown_key_is_an_error(place: Place) -> None:
    with pytest.raises(HoldfastError, match=r"unknown key cache.stratgy; the nearest known name is cache.strategy"):
        place.load().origin("cache.stratgy")
