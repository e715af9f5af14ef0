"""How a client gets the address of the gateway: variables it reads, for some an argument or a file.

An unknown client, or one started by a shell, gets it in every way: all variables are set, and its PATH has scripts that
add the argument to the programs that need one. Addresses only, never keys. An address that the user has chosen for a
client is respected: it becomes the upstream of the gateway or stays unchanged, since a key must not reach another
server than the one it was meant for. A client logged in with a subscription, whose calls go elsewhere, is left alone.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from .commands import name_of, program_of

V1 = "/v1"
_STATUS_S = 10
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_HERE = ("127.0.0.1", "localhost")
_selected = re.compile(r'"selectedType"\s*:\s*"([^"]*)"').search


class Variable(Struct, frozen=True):
    """A variable that holds the address of `upstream`, ending in `path`."""

    name: str
    upstream: str
    path: str = ""


_ANTHROPIC = Variable("ANTHROPIC_BASE_URL", "anthropic")
_OPENAI = Variable("OPENAI_BASE_URL", "openai", V1)
_GEMINI = Variable("GOOGLE_GEMINI_BASE_URL", "gemini")
_LANGCHAIN = Variable("ANTHROPIC_API_URL", "anthropic")
_LITELLM = (
    Variable("ANTHROPIC_API_BASE", "anthropic"),
    Variable("OPENAI_API_BASE", "openai", V1),
    Variable("GEMINI_API_BASE", "gemini", "/v1beta"),
    Variable("OPENROUTER_API_BASE", "openrouter", "/api/v1"),
)
ANY = (_ANTHROPIC, _OPENAI, _GEMINI, _LANGCHAIN, *_LITELLM)
"""What any known client, the providers' SDKs, LangChain and LiteLLM read, for programs that are not known here."""

READ: Mapping[str, tuple[Variable, ...]] = {
    "claude": (_ANTHROPIC,),
    "codex": (),
    "opencode": (Variable("ANTHROPIC_BASE_URL", "anthropic", V1), _OPENAI),
    "gemini": (_GEMINI,),
    "aider": _LITELLM,
    "pi": (),
    "qwen": (_OPENAI,),
    "llm": ANY,
    "deepagents": ANY,
}
"""What each client reads. Those without a variable are told by an argument."""

_PI_COMMANDS = ("install", "remove", "uninstall", "update", "list", "config")
_PI_PROVIDERS = {"anthropic": "", "openai": V1, "google": "/v1beta", "openrouter": "/api/v1"}


class Chosen(Struct, frozen=True):
    """The user's own variables: upstreams for the gateway, and variables left unchanged."""

    upstreams: Mapping[str, str] = {}
    untouched: tuple[str, ...] = ()


class Launch(Struct, frozen=True):
    """A client ready to be started."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def client_name(command: Sequence[str]) -> str:
    """What a command is called: the client it starts, else its program."""
    return program_of(command).client or name_of(command[0])


def started(command: Sequence[str]) -> str:
    """The client that a command starts, where it is a known one."""
    return program_of(command).client


def variables(client: str) -> tuple[Variable, ...]:
    return READ.get(client, ANY)


def chosen(client: str, environ: Mapping[str, str], ours: str, official: Mapping[str, str]) -> Chosen:
    """The addresses that the user chose for a client in the environment.

    `ours` is where the gateway of this installation listens, `official` has the providers' own addresses by name: both
    are no choice. An address that no upstream can stand for, by its end or by a password in it, is kept.
    """
    upstreams: dict[str, str] = {}
    untouched: list[str] = []
    for variable in variables(client):
        value = environ.get(variable.name, "").strip().rstrip("/")
        if not value or _place(value) == _place(ours):
            continue
        base = _base(value, variable)
        if base is None or upstreams.get(variable.upstream, base) != base:
            untouched.append(variable.name)
        elif base != official.get(variable.upstream):
            upstreams[variable.upstream] = base
    return Chosen(upstreams, tuple(untouched))


def environment(command: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment in which a command starts its client, with what it sets itself (`env NAME=VALUE client`)."""
    program = program_of(command)
    return environ if program.index is None else {**environ, **program.environ}


def outside(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Why a client has to be left alone: its calls go where no gateway is, or would not arrive. Empty if it has not."""
    program = program_of(command)
    environ = {**environ, **program.environ}
    if (
        program.client == "codex"
        and program.index is not None  # the script on the PATH of a shell asks for itself
        and not environ.get("CODEX_API_KEY")
        and not _codex_has_key(command[: program.index + 1], environ)
    ):
        return _CODEX_LOGIN
    if program.client == "gemini" and _gemini_login(environ) != _GEMINI_KEY:
        return "the Gemini CLI takes another address only with `Use Gemini API Key` chosen in /auth"
    if (
        program.client == "qwen"
        and not environ.get(_OPENAI.name)
        and '"baseUrl"' in _settings("qwen", environ.get("HOME", ""))
    ):
        return "Qwen Code has an address of its own in its settings"
    return ""


def subscribed(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether Claude Code is logged in with a subscription, by its environment and files."""
    if program_of(command).client != "claude":
        return False
    environ = environment(command, environ)
    if environ.get("CLAUDE_CODE_OAUTH_TOKEN") or environ.get("ANTHROPIC_AUTH_TOKEN", "").startswith(_CLAUDE_LOGIN):
        return True
    if environ.get("ANTHROPIC_API_KEY") or environ.get("ANTHROPIC_AUTH_TOKEN"):
        return False
    home = Path(environ.get("CLAUDE_CONFIG_DIR") or f"{environ.get('HOME', '')}/.claude")
    return '"claudeAiOauth"' in _text(home / ".credentials.json")


def launch(
    command: Sequence[str], environ: Mapping[str, str], address: str, scratch: Path, untouched: Sequence[str] = ()
) -> Launch:
    """The command and the environment with which a client's calls come to `address`; files go into `scratch`."""
    program = program_of(command)
    addresses = {each.name: address + each.path for each in variables(program.client) if each.name not in untouched}
    if not program.client and _gemini_login(environ) not in ("", _GEMINI_KEY):
        addresses.pop(_GEMINI.name, None)  # a Gemini CLI with another login takes it for a login, and refuses it
    ours = {**addresses, **_past_proxies(environ)}
    if program.index is None:
        ours |= _path_with_scripts(environ, address, scratch)
        return Launch(tuple(command), {**environ, **ours})
    at = program.index + 1
    arguments = _arguments(program.client, command[at:], environ, address, scratch)
    before = tuple(command[: program.index])
    if program.cleared or program.environ.keys() & ours.keys():  # `env -i` and `sudo` take away what we set
        before += ("env", *(f"{name}={value}" for name, value in ours.items()))
    return Launch((*before, command[program.index], *arguments, *command[at:]), {**environ, **ours})


def _arguments(
    client: str, behind: Sequence[str], environ: Mapping[str, str], address: str, scratch: Path
) -> tuple[str, ...]:
    """Return the arguments for a client that takes the address as an argument."""
    if client == "codex":
        return "-c", f"openai_base_url={json.dumps(address + V1)}"
    if client == "pi" and not (behind and behind[0] in _PI_COMMANDS):
        return "--extension", str(_pi_extension(environ, address, scratch))
    return ()


def _path_with_scripts(environ: Mapping[str, str], address: str, scratch: Path) -> dict[str, str]:
    """A PATH on which the clients that are told by an argument are scripts that add it; empty where there are none."""
    folder, path = scratch / "bin", environ.get("PATH", "")
    written = False
    for name in ("codex", "pi"):
        program = shutil.which(name, path=path)
        if program is None:
            continue
        command = shlex.join([program, *_arguments(name, (), environ, address, scratch)])
        alone = shlex.quote(program)
        folder.mkdir(exist_ok=True)
        script = folder / name
        text = _PI_SCRIPT if name == "pi" else _CODEX_SCRIPT
        script.write_text(
            text.format(command=command, alone=alone, says=shlex.quote(f"holdfast: {_CODEX_LOGIN}")), "utf-8"
        )
        script.chmod(0o700)
        written = True
    return {"PATH": f"{folder}:{path}"} if written else {}


_CODEX_LOGIN = "Codex takes another address only when it is logged in with an API key (codex login --with-api-key)"
_CLAUDE_LOGIN = "sk-ant-oat"
_GEMINI_KEY = "gemini-api-key"
_CODEX_SCRIPT = """#!/bin/sh
if [ -n "$CODEX_API_KEY" ] || {alone} login status </dev/null 2>&1 | grep -qi "api key"; then
  exec {command} "$@"
fi
echo {says}"; it runs without Holdfast" >&2
exec {alone} "$@"
"""
_PI_SCRIPT = f"""#!/bin/sh
case "$1" in
  {"|".join(_PI_COMMANDS)}) exec {{alone}} "$@" ;;
esac
exec {{command}} "$@"
"""


def _base(value: str, variable: Variable) -> str | None:
    """The upstream that an address stands for: without the path that a client's variable has at its end."""
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    if not usable or parts.query or parts.fragment or parts.username is not None:
        return None
    end = variable.path.removeprefix("/api")  # OpenRouter's upstream has that part
    return value.removesuffix(end) if value.endswith(end) else None


def _place(address: str) -> tuple[str, int | None]:
    """Host and port, however this machine's own name is spelt."""
    try:
        parts = urlsplit(address)
        return {"localhost": "127.0.0.1", "::1": "127.0.0.1"}.get(
            parts.hostname or "", parts.hostname or ""
        ), parts.port
    except ValueError:
        return "", None


def _codex_has_key(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """What Codex itself says. Logged in with ChatGPT its calls go to another service, and must."""
    try:
        done = subprocess.run(
            [*command, "login", "status"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_STATUS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"api key" in (done.stdout + done.stderr).lower()


def _gemini_login(environ: Mapping[str, str]) -> str:
    """The way of logging in that its settings name, of the workspace before the user's.

    Without one it takes an address in the environment for a way of logging in, which it then refuses.
    """
    selected = _selected(_settings("gemini", environ.get("GEMINI_CLI_HOME") or environ.get("HOME", "")))
    return "" if selected is None else selected[1]


def _settings(client: str, home: str) -> str:
    """Return the text of the workspace's settings file followed by the user's."""
    return "\n".join(_text(folder / f".{client}" / "settings.json") for folder in (Path(), Path(home)))


def _pi_extension(environ: Mapping[str, str], address: str, scratch: Path) -> Path:
    """An extension that tells pi where its own providers are now, apart from those with an address of the user's."""
    home = environ.get("PI_CODING_AGENT_DIR") or f"{environ.get('HOME', '')}/.pi/agent"
    own = _text(Path(home) / "models.json")
    lines = [
        f"  pi.registerProvider({json.dumps(name)}, {{ baseUrl: {json.dumps(address + path)} }});"
        for name, path in _PI_PROVIDERS.items()
        if f'"{name}"' not in own
    ]
    file = scratch / "holdfast.js"
    file.write_text("\n".join(["export default function (pi) {", *lines, "}", ""]), "utf-8")
    return file


def _past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """A client that goes through a proxy must not look for this machine there."""
    if not any(environ.get(name) for name in _PROXIES):
        return {}
    named = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = [host.strip() for host in named.split(",") if host.strip()]
    hosts += [host for host in _HERE if host not in hosts]
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(hosts))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
