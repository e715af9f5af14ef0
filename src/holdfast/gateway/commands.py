"""Which client a command line starts, directly or through launchers, interpreters and shells.

People type `npx codex`, `env X=Y opencode`, `node …/cli.js` and `bash -c "cd app && claude"`. Only certain matches
count; an ambiguous word makes the client unknown, and unknown ones get every address.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct

PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "opencode-ai": "opencode",
    "@google/gemini-cli": "gemini",
    "@mariozechner/pi-coding-agent": "pi",
    "@qwen-code/qwen-code": "qwen",
    "aider-chat": "aider",
    "llm": "llm",
    "deepagents-cli": "deepagents",
}
"""Clients by the packages that hold them."""

CLIENTS = frozenset(PACKAGES.values())

_DEEPEST = 8  # launchers in front of each other, and folders between a program and its package
_assignment = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=").match
_python = re.compile(r"(?:python|pypy)[0-9.]*\Z").match
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "fish"))
_NODES = frozenset(("node", "nodejs", "bun", "deno", "tsx"))
_KEYWORDS = frozenset(("exec", "command", "time", "nohup", "then", "do", "else", "if", "while", "!", "{"))
_LONGEST_PACKAGE = 1_000_000  # bytes of a package.json


class Program(Struct, frozen=True):
    """The client that a command starts, empty if unknown.

    `index` is the position of its name on the command line, after which our arguments may be added; None if it is in a
    shell's text. `environ` is what the command sets for it, `cleared` if it clears the rest.
    """

    client: str = ""
    index: int | None = None
    environ: Mapping[str, str] = {}
    cleared: bool = False


class _Launcher(Struct, frozen=True):
    """A program that starts another: its options that take a value, its subcommands of which one comes first, and the
    number of plain words in front of the other program."""

    values: frozenset[str] = frozenset()
    after: tuple[str, ...] = ()
    words: int = 0


def _launcher(values: str = "", after: str = "", words: int = 0) -> _Launcher:
    return _Launcher(frozenset(values.split()), tuple(after.split()), words)


_PLAIN = _launcher()
_RUN = _launcher("-n --name -p --prefix -C --directory --env --env-file", "run")
_LAUNCHERS: Mapping[str, _Launcher] = {
    "env": _launcher("-u --unset -C --chdir"),
    "timeout": _launcher("-s --signal -k --kill-after", words=1),
    "nice": _launcher("-n --adjustment"),
    "ionice": _launcher("-c --class -n --classdata"),
    "stdbuf": _launcher("-i -o -e --input --output --error"),
    "sudo": _launcher("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -T -U"),
    "doas": _launcher("-u -C"),
    "flock": _launcher("-w --timeout -E", words=1),
    "taskset": _launcher(words=1),
    "caffeinate": _launcher("-t -w"),
    "strace": _launcher("-o -e -s -p -E"),
    **dict.fromkeys(("nohup", "setsid", "time", "command", "unbuffer", "chronic", "xvfb-run"), _PLAIN),
    **dict.fromkeys(("npx", "pnpx", "bunx"), _launcher("-p --package -w --workspace")),
    "npm": _launcher("-p --package -w --workspace", "exec x"),
    "pnpm": _launcher("-C --dir --filter --package", "dlx exec"),
    "yarn": _launcher("-p --package", "dlx exec"),
    "uvx": _launcher("--from --with --with-editable --with-requirements -p --python --index --index-url"),
    "uv": _launcher(
        "--from --with --with-editable -p --python --index --project --directory --extra --group", "run tool"
    ),
    "pipx": _launcher("--spec --python --pip-args --index-url", "run"),
    **dict.fromkeys(
        ("poetry", "pdm", "hatch", "rye", "pixi", "pipenv", "conda", "mamba", "micromamba", "dotenv"), _RUN
    ),
    **dict.fromkeys(("op", "doppler", "infisical", "volta"), _RUN),
    "mise": _launcher("-C --cd -E --env", "exec x"),
    "asdf": _launcher(after="exec"),
    "direnv": _launcher(after="exec", words=1),
}
_CLEARING = frozenset(("sudo", "doas"))  # unless their configuration says otherwise
_TEXTS = dict.fromkeys(("npx", "npm"), ("-c", "--call")) | {"env": ("-S", "--split-string")}  # take a shell's text
_EMPTYING = ("-i", "-", "--ignore-environment")


def program_of(command: Sequence[str]) -> Program:
    """Return the program that a command line starts."""
    return _walk(tuple(command), 0, Program(), 0)


def name_of(word: str) -> str:
    """A program's name, without folders and the endings of Windows."""
    return PurePath(word).name.lower().removesuffix(".exe").removesuffix(".cmd")


def _walk(command: tuple[str, ...], at: int, before: Program, depth: int) -> Program:
    """Return the program that the words from `at` on start; `before` is the effect of those in front."""
    if at >= len(command) or depth > _DEEPEST:
        return Program()
    name = name_of(command[at])
    if client := _client(command[at]):
        return msgspec.structs.replace(before, client=client, index=at)
    if name in _SHELLS:
        return _in_shell(command[at + 1 :], before, depth)
    if _python(name) or name in _NODES:
        return _interpreted(command, at, before)
    launcher = _LAUNCHERS.get(name)
    if launcher is None:
        return Program()
    if name in _CLEARING:
        before = msgspec.structs.replace(before, cleared=True)
    return _launched(command, at + 1, name, launcher, before, depth)


def _launched(
    command: tuple[str, ...], at: int, name: str, launcher: _Launcher, before: Program, depth: int
) -> Program:
    """Return the program that a launcher starts, whose arguments begin at `at`."""
    after, words, environ, cleared = launcher.after, launcher.words, dict(before.environ), before.cleared
    while at < len(command):
        word = command[at]
        if word in _TEXTS.get(name, ()):
            text = command[at + 1] if at + 1 < len(command) else ""
            return _in_text(text, Program(environ=environ, cleared=cleared), depth)
        if word == "--":
            at += 1
            break
        if name == "env" and word in _EMPTYING:
            cleared, environ = True, {}
        elif word.startswith("-"):
            at += word in launcher.values
        elif name in ("env", "sudo", "doas") and _assignment(word):
            variable, _, value = word.partition("=")
            environ[variable] = value
        elif after:
            if word not in after:
                return Program()
            after = ("run",) if name == "uv" and word == "tool" else ()
        elif words:
            words -= 1
        else:
            break
        at += 1
    return _walk(command, at, Program(environ=environ, cleared=cleared), depth + 1)


def _interpreted(command: tuple[str, ...], at: int, before: Program) -> Program:
    """Return the client that an interpreter runs as a script or module."""
    modules = _python(name_of(command[at])) is not None
    for place in range(at + 1, len(command)):
        word = command[place]
        if modules and word == "-m":
            module = command[place + 1] if place + 1 < len(command) else ""
            client = module if module in CLIENTS else ""
            return msgspec.structs.replace(before, client=client, index=place + 1) if client else Program()
        if modules and word == "-c":
            return Program()
        if word.startswith("-") or (not modules and word in ("run", "x")):
            continue
        client = _client(word)
        return msgspec.structs.replace(before, client=client, index=place) if client else Program()
    return Program()


def _in_shell(arguments: Sequence[str], before: Program, depth: int) -> Program:
    """The client in the text that a shell is given with -c. A script may start anything."""
    for place, word in enumerate(arguments):
        if not word.startswith(("-", "+")):
            break
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            text = next((each for each in arguments[place + 1 :] if not each.startswith("-")), "")
            return _in_text(text, before, depth)
    return Program()


def _in_text(text: str, before: Program, depth: int) -> Program:
    """The client that a shell's commands start; none where they start several."""
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return Program()
    programs: dict[str, Program] = {}
    simple: list[str] = []
    for word in (*words, ";"):
        if word and not set(word) <= set("();<>|&"):
            simple.append(word)
            continue
        inner = _simple(simple, before, depth)
        if inner.client:
            programs[inner.client] = msgspec.structs.replace(inner, index=None)
        simple = []
    return next(iter(programs.values())) if len(programs) == 1 else Program()


def _simple(words: list[str], before: Program, depth: int) -> Program:
    """One command of a shell's text: behind assignments and keywords."""
    environ, at = dict(before.environ), 0
    while at < len(words) and (words[at] in _KEYWORDS or _assignment(words[at])):
        if words[at] not in _KEYWORDS:
            variable, _, value = words[at].partition("=")
            environ[variable] = value
        at += 1
    return _walk(tuple(words), at, Program(environ=environ, cleared=before.cleared), depth + 1)


def _client(word: str) -> str:
    """The client that a word names: a program, a package or a file of one."""
    name = name_of(word)
    if name in CLIENTS:
        return name
    package = word.removeprefix("npm:")
    package = package[:end] if (end := package.rfind("@")) > 0 else package
    if package in PACKAGES:
        return PACKAGES[package]
    if package in CLIENTS:
        return package
    return _of_file(word)


def _of_file(word: str) -> str:
    """Return the client whose package contains a file, following links."""
    path = shutil.which(word) or (word if os.path.sep in word else "")
    if not path:
        return ""
    try:
        file = Path(path).resolve(strict=True)
    except (OSError, RuntimeError):
        return ""
    for folder in (*file.parents,)[:_DEEPEST]:
        described = folder / "package.json"
        try:
            if described.stat().st_size <= _LONGEST_PACKAGE:
                return PACKAGES.get(msgspec.json.decode(described.read_bytes(), type=_Package).name, "")
        except FileNotFoundError:
            continue
        except (OSError, msgspec.MsgspecError):
            return ""
    return ""


class _Package(Struct):
    """What counts of a package.json."""

    name: str = ""
