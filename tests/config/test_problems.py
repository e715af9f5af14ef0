"""What is wrong is said in one line each: where, what, what is allowed; and all of it at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.config import KEYS, load, load_config
from holdfast.config.keys import nearest
from holdfast.errors import HoldfastError


def problems(
    tmp_path: Path,
    text: str | bytes = "",
    environ: Mapping[str, str] = {},
    flags: Mapping[str, object] = {},
) -> list[str]:
    """The lines of the error, with the file named FILE."""
    path = tmp_path / "holdfast.toml"
    if text:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(HoldfastError) as caught:
        load(
            workspace=tmp_path,
            home=tmp_path / "home",
            environ={"HOME": str(tmp_path), **environ},
            flags=flags,
        )
    return str(caught.value).replace(str(path), "FILE").split("\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[cache]\nstratgy = "zones"',
            "FILE:2: unknown key cache.stratgy; the nearest known name is cache.strategy",
        ),
        ("[chache]\nx = 1", "FILE:1: unknown section chache; the nearest known name is cache"),
        ('strategy = "zones"', "FILE:1: unknown key strategy; the nearest known name is cache.strategy"),
        (
            "cacheRetention = 1",
            "FILE:1: unknown key cacheRetention; the nearest known name is cache.retention",
        ),
        (
            "agent.historyTurns = 15",
            "FILE:1: unknown key agent.historyTurns; the nearest known name is agent.history_turns",
        ),
        (
            '"cache.strategy" = "zones"',
            'FILE:1: unknown key "cache.strategy"; the nearest known name is cache.strategy',
        ),
        (
            "[agents.scout.cache]\nstratgy = 1",
            "FILE:2 [agents.scout]: unknown key cache.stratgy; the nearest known name is cache.strategy",
        ),
        (
            "[agents.scout.agents.x.cache]\nstrategy = 1",
            "FILE:1 [agents.scout]: unknown section agents; the nearest known name is agent",
        ),
    ],
)
def test_an_unknown_name_in_a_file_is_named_with_the_nearest_known_one(tmp_path: Path, text: str, line: str) -> None:
    assert problems(tmp_path, text) == [line]


def test_an_unknown_name_stays_on_one_line(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, '"a\\nb\\u001b[31m" = 1')
    assert line.startswith("FILE:1: unknown key a\\nb\\x1b[31m; the nearest known name is ")


def test_unknown_names_in_environment_and_flags_are_named_too(tmp_path: Path) -> None:
    assert problems(tmp_path, environ={"HOLDFAST_CACHE_STRATGY": "x"}, flags={"cache.stratgy": "x", "cache": 1}) == [
        "environment HOLDFAST_CACHE_STRATGY: unknown variable; the nearest known name is HOLDFAST_CACHE_STRATEGY",
        "flag cache.stratgy: unknown key cache.stratgy; the nearest known name is cache.strategy",
        f"flag cache: unknown key cache; the nearest known name is {nearest('cache')}",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('port = "8788"', 'gateway.port = "8788" is not allowed; it must be a whole number from 0 to 65_535'),
        ("port = 8788.0", "gateway.port = 8788.0 is not allowed; it must be a whole number from 0 to 65_535"),
        ("port = true", "gateway.port = true is not allowed; it must be a whole number from 0 to 65_535"),
        ("port = 65536", "gateway.port = 65536 is not allowed; it must be a whole number from 0 to 65_535"),
        ("port = -1", "gateway.port = -1 is not allowed; it must be a whole number from 0 to 65_535"),
        ("headers = 1", "gateway.headers = 1 is not allowed; it must be true or false"),
        ('headers = "yes"', 'gateway.headers = "yes" is not allowed; it must be true or false'),
        (
            'preflight = "hald"',
            'gateway.preflight = "hald" is not allowed; it must be one of "off", "warn", "hold"',
        ),
        (
            "preflight_usd = nan",
            'gateway.preflight_usd = nan is not allowed; it must be a number from 0 to 1_000_000_000, or "unset"',
        ),
        (
            "limits.idle_s = inf",
            "gateway.limits.idle_s = inf is not allowed; it must be a number above 0 and up to 1_000_000_000",
        ),
        (
            "limits.idle_s = 0",
            "gateway.limits.idle_s = 0 is not allowed; it must be a number above 0 and up to 1_000_000_000",
        ),
        ("limits = 3", "gateway.limits = 3 is not allowed; it is a section, write [gateway.limits]"),
        (
            "port = 1979-05-27",
            "gateway.port = 1979-05-27 is not allowed; it must be a whole number from 0 to 65_535",
        ),
        (
            "port = {a = 1}",
            'gateway.port = { "a" = 1 } is not allowed; it must be a whole number from 0 to 65_535',
        ),
    ],
)
def test_a_wrong_value_in_a_file_is_named_with_what_is_allowed(tmp_path: Path, text: str, line: str) -> None:
    assert problems(tmp_path, f"[gateway]\n{text}") == [f"FILE:2: {line}"]


def test_an_empty_text_in_a_list_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path, 'skills.roots = ["a", ""]') == [
        'FILE:1: skills.roots = ["a", ""] is not allowed; it must be a list of texts, one line each, none of them empty'
    ]


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("store.keep_bodies", "maybe", "true or false"),
        ("gateway.port", "80.5", "a whole number from 0 to 65_535"),
        ("gateway.port", "0x10", "a whole number from 0 to 65_535"),
        ("gateway.port", "_1", "a whole number from 0 to 65_535"),
        ("gateway.port", "٣", "a whole number from 0 to 65_535"),
        ("cache.breaks.min_drop", "nan", "a number from 0 to 1"),
        ("cache.breaks.min_drop", "1.5", "a number from 0 to 1"),
        ("cache.gemini.refresh_at", "1", "a number above 0 and below 1"),
        ("cache.strategy", "optimal", "one of "),
        ("tools.deferral.never", "[1]", "a list of texts, one line each"),
        ("tools.deferral.never", "[", "a list of texts, one line each"),
        ("tools.deferral.never", '["a"]\nx = 1', "a list of texts, one line each"),
        (
            "cache.retention_overrides",
            '{"a": "forever"}',
            'a table whose values are one of "none", "short", "long"',
        ),
        ("cache.retention_overrides", "[" * 100_000, "a table whose values are one of "),
        (
            "tools.offload.per_tool",
            '{"a": -1}',
            "a table whose values are a whole number from 0 to 1_000_000_000",
        ),
        ("store.url", "mysql://x", "an address of the form sqlite:///PATH"),
        ("upstream.openai", "api.openai.com", "an http:// or https:// address"),
        ("upstream.openai", "https://", "an http:// or https:// address"),
        ("agent.model", "gpt", 'a model of the form provider:name, or "unset"'),
        ("gateway.host", "a\udcffb", "one line of text"),
        ("tools.deferral.never", "a\udcffb", "a list of texts"),
        ("cache.retention_overrides", '{"\udcff": "none"}', "a table whose values are "),
    ],
)
def test_a_wrong_text_in_the_environment_or_a_flag_is_named_with_what_is_allowed(
    tmp_path: Path, key: str, text: str, allowed: str
) -> None:
    for where, given in (
        (f"environment {KEYS[key].variable}", {"environ": {KEYS[key].variable: text}}),
        (f"flag {key}", {"flags": {key: text}}),
    ):
        (line,) = problems(tmp_path, **given)  # type: ignore[arg-type]
        assert line.startswith(f"{where}: {key} = ")
        assert f" is not allowed; it must be {allowed}" in line
        assert len(line) < 400
        assert line.isprintable()


@pytest.mark.parametrize("value", [10**400, [], {"a": "none"}, b"x", object])
def test_a_typed_flag_of_the_wrong_type_is_an_error(tmp_path: Path, value: object) -> None:
    (line,) = problems(tmp_path, flags={"cache.breaks.min_drop": value})
    assert line.startswith("flag cache.breaks.min_drop: cache.breaks.min_drop = ")


def test_absurdly_long_names_and_values_are_cut(tmp_path: Path) -> None:
    lines = problems(
        tmp_path,
        f'{"x" * 50_000} = 1\ngateway.port = "{"y" * 50_000}"',
        environ={"HOLDFAST_" + "Z" * 50_000: "1"},
        flags={"w" * 50_000: "1", "gateway.limits.idle_s": "9" * 50_000},
    )
    assert len(lines) == 5
    assert max(map(len, lines)) < 400


@pytest.mark.parametrize(
    ("text", "where", "lesser"),
    [
        ("cache.padding_min = 6000", "FILE:1", "cache.padding_min = 6000"),
        ("\ncache.padding_max = 100", "FILE:2", "cache.padding_min = 4500"),
        ("skills.hard_tokens = 1", "FILE:1", "skills.warn_tokens = 10000"),
        ("tools.mask.trigger_chars = 5", "FILE:1", "tools.mask.release_chars = 80000"),
        ("[agents.scout]\ncache.padding_min = 6000", "FILE:2 [agents.scout]", "cache.padding_min = 6000"),
    ],
)
def test_bounds_in_the_wrong_order_are_an_error(tmp_path: Path, text: str, where: str, lesser: str) -> None:
    (line,) = problems(tmp_path, text)
    assert line.startswith(f"{where}: {lesser} is not allowed; it must be at most ")


@pytest.mark.parametrize("text", ["agents = 3", "[agents]\nscout = 3", '[agents.""]\ncache.strategy = "zones"'])
def test_agents_hold_tables_with_names(tmp_path: Path, text: str) -> None:
    (line,) = problems(tmp_path, text)
    assert line.startswith("FILE:")
    assert line.endswith("agents holds one table per agent; write [agents.NAME.SECTION]")


def test_everything_wrong_is_reported_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "holdfast.toml").write_text("[")
    lines = problems(
        tmp_path,
        '[cache]\nstratgy = 1\nrepair = "of"\n[agents.scout.gateway]\nport = -1',
        environ={"HOLDFAST_X": "1"},
        flags={"y": 1},
    )
    starts = [
        "/",
        "FILE:2: unknown",
        "FILE:3: cache.repair",
        "environment HOLDFAST_X",
        "flag y",
        "FILE:5 [agents",
    ]
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def test_a_problem_that_every_agent_inherits_is_reported_once(tmp_path: Path) -> None:
    assert (
        len(problems(tmp_path, "cache.padding_min = 6000\nagents.a.gateway.port = 1\nagents.b.gateway.port = 2")) == 1
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[cache]\nstrategy zones", "FILE:2: this is not valid TOML ("),
        ("a = 1\na = 2", "FILE:2: this is not valid TOML ("),
        ("a = [\n1,\n", "FILE:3: this is not valid TOML ("),
        ("a = " + "[" * 100_000, "FILE: this is not valid TOML (it is nested too deeply)"),
        ("a = " + "9" * 5000, "FILE: this is not valid TOML ("),
        (b"a = '\xff'", "FILE: the file is not UTF-8 (byte 5); save it as UTF-8"),
        (b"#" * 1_000_001, "FILE: the file is larger than 1 MB; it cannot be a configuration"),
    ],
)
def test_a_malformed_file_is_named_with_the_line(tmp_path: Path, text: str | bytes, line: str) -> None:
    (found,) = problems(tmp_path, text)
    assert found.startswith(line)


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").mkdir()
    assert problems(tmp_path) == ["FILE: this is a directory, not a file; remove or rename it"]


def test_a_pipe_in_place_of_the_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "holdfast.toml")
    assert problems(tmp_path) == ["FILE: this is not a regular file; remove or rename it"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").symlink_to("holdfast.toml")
    (line,) = problems(tmp_path)
    assert line.startswith("FILE: the file cannot be read (Too many levels of symbolic links)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_read_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("x = 1")
    (tmp_path / "holdfast.toml").chmod(0)
    assert problems(tmp_path) == ["FILE: the file cannot be read (Permission denied); mend or remove it"]


def test_a_home_that_is_a_file_means_no_file_there(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert load(workspace=None, home=tmp_path / "home", environ={"HOME": "/nowhere"}).files == ()


@pytest.mark.parametrize(
    "address",
    [
        "ftp://me:s3cret@x",
        "me:s3cret@x",
        "me:s3c/s3cret@x/y",
        "x?api_key=s3cret",
        "ftp://x/?a=1&token=s3cret",
        "https://me:s3c et s3cret@x",
        "ftp://x/?X-Amz-Signature=s3cret;auth=s3cret",
    ],
)
def test_an_error_never_shows_a_secret_that_an_address_carries(tmp_path: Path, address: str) -> None:
    (line,) = problems(tmp_path, environ={"HOLDFAST_UPSTREAM_OPENAI": address})
    assert "s3c" not in line
    assert "***" in line


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.guarded])
@pytest.mark.parametrize("block", ["", "agents.scout."])
def test_a_workspace_cannot_decide_who_receives_calls_keys_and_prompts(tmp_path: Path, name: str, block: str) -> None:
    (line,) = problems(tmp_path, f'{block}{name} = "https://stranger.example"')
    agent = " [agents.scout]" if block else ""
    variable = "HOLDFAST_" + name.replace(".", "_").upper()
    assert line == (
        f"FILE:1{agent}: a workspace cannot set {name}; "
        f"set it in HOLDFAST_HOME/holdfast.toml, in the variable {variable} or in a flag"
    )


def test_a_name_that_carries_a_secret_is_masked(tmp_path: Path) -> None:
    for line in (
        *problems(tmp_path, '"https://me:s3cret@x" = 1'),
        *problems(tmp_path, "", flags={"https://me:s3cret@x?a": "1"}),
    ):
        assert "s3cret" not in line
        assert "https://***@x" in line


def test_a_text_that_is_empty_or_has_several_lines_is_named(tmp_path: Path) -> None:
    for text in ('""', '"a\\nb"'):
        line = f"FILE:1: cache.breaks.dir = {text} is not allowed; it must be one line of text"
        assert problems(tmp_path, f"cache.breaks.dir = {text}") == [line]


def test_a_current_directory_that_is_gone_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(HoldfastError, match="the current directory no longer exists"):
        load_config()
    monkeypatch.chdir(tmp_path)


def test_a_user_without_a_home_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(HoldfastError, match="there is no home directory; set HOME"):
        load(workspace=tmp_path, home=None, environ={})


@pytest.mark.parametrize("variable", ["HOME", "HOLDFAST_HOME"])
@pytest.mark.parametrize("path", ["/tmp/a\nb", "/tmp/\x7f", "/tmp/\udcff"])
def test_a_home_that_no_line_can_name_is_refused(variable: str, path: str) -> None:
    with pytest.raises(HoldfastError, match=f"{variable} has characters that cannot be printed"):
        load(workspace=None, home=None, environ={"HOME": "/tmp", variable: path})


@pytest.mark.parametrize(
    "root",
    [
        "/etc",
        "~",
        "~root/x",
        "~/other/skills",
        "../beside",
        "./..",
        "a/../../b",
        "HOLDFAST_HOME",
        "HOLDFAST_HOME/",
        "HOLDFAST_HOME/other",
        "HOLDFAST_HOME/skills/../other",
    ],
)
def test_a_workspace_cannot_make_directories_elsewhere_its_roots_of_skills(tmp_path: Path, root: str) -> None:
    (line,) = problems(tmp_path, f'skills.roots = [".claude/skills", "{root}"]')
    assert line == (
        f'FILE:1: skills.roots names "{root}", which is not in this workspace; its file may name HOLDFAST_HOME/skills, '
        "~/.agents/skills, ~/.claude/skills besides, all others belong into HOLDFAST_HOME/holdfast.toml"
    )
