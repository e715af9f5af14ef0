"""How a client is told where the gateway is: variables it reads, for some an argument or a file.

Addresses only, never keys. An address that the user has chosen for a client is respected: it becomes the upstream of
the gateway or stays as it is, since a key must not reach another server than the one it was meant for. A client that is
logged in with a subscription, whose calls go elsewhere, is left alone.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from msgspec import Struct

V1 = "/v1"
_STATUS_S = 10
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_HERE = ("127.0.0.1", "localhost")
_selected = re.compile(r'"selectedType"\s*:\s*"([^"]*)"').search


class Variable(Struct, frozen=True):
    """A variable that holds an address: whose, and with which path at its end."""

    name: str
    upstream: str
    path: str = ""


_ANTHROPIC = Variable("ANTHROPIC_BASE_URL", "anthropic")
_OPENAI = Variable("OPENAI_BASE_URL", "openai", V1)
_GEMINI = Variable("GOOGLE_GEMINI_BASE_URL", "gemini")
_LITELLM = (
    Variable("ANTHROPIC_API_BASE", "anthropic"),
    Variable("OPENAI_API_BASE", "openai", V1),
    Variable("GEMINI_API_BASE", "gemini", "/v1beta"),
    Variable("OPENROUTER_API_BASE", "openrouter", "/api/v1"),
)
ANY = (_ANTHROPIC, _OPENAI, _GEMINI, *_LITELLM)
"""What the providers' SDKs and LiteLLM read, for programs that are not known here."""

READ: Mapping[str, tuple[Variable, ...]] = {
    "claude": (_ANTHROPIC,),
    "codex": (),
    "opencode": (Variable("ANTHROPIC_BASE_URL", "anthropic", V1), _OPENAI),
    "gemini": (_GEMINI,),
    "aider": _LITELLM,
    "pi": (),
    "qwen": (_OPENAI,),
}
"""What each client reads. Those without a variable are told by an argument."""

_PI_COMMANDS = ("install", "remove", "uninstall", "update", "list", "config")
_PI_PROVIDERS = {"anthropic": "", "openai": V1, "google": "/v1beta", "openrouter": "/api/v1"}


class Chosen(Struct, frozen=True):
    """What the user's own variables say: upstreams for the gateway, and variables that are left as they are."""

    upstreams: Mapping[str, str] = {}
    kept: tuple[str, ...] = ()


class Launch(Struct, frozen=True):
    """A client ready to be started."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def client_name(command: Sequence[str]) -> str:
    """The client that a command starts, by the name of its program."""
    return PurePath(command[0]).name.lower().removesuffix(".exe").removesuffix(".cmd")


def variables(client: str) -> tuple[Variable, ...]:
    return READ.get(client, ANY)


def chosen(client: str, environ: Mapping[str, str], ours: str, official: Mapping[str, str]) -> Chosen:
    """The addresses that the user chose for a client in the environment.

    `ours` is where the gateway of this installation listens, `official` has the providers' own addresses by name: both
    are no choice. An address that no upstream can stand for, by its end or by a password in it, is kept.
    """
    upstreams: dict[str, str] = {}
    kept: list[str] = []
    for variable in variables(client):
        value = environ.get(variable.name, "").strip().rstrip("/")
        if not value or _place(value) == _place(ours):
            continue
        base = _base(value, variable)
        if base is None or upstreams.get(variable.upstream, base) != base:
            kept.append(variable.name)
        elif base != official.get(variable.upstream):
            upstreams[variable.upstream] = base
    return Chosen(upstreams, tuple(kept))


def outside(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Why a client has to be left alone: its calls go where no gateway is, or would not arrive. Empty if it has not."""
    client = client_name(command)
    if client == "codex" and not environ.get("CODEX_API_KEY") and not _codex_has_key(command[0], environ):
        return "Codex takes another address only when it is logged in with an API key (codex login --with-api-key)"
    if client == "gemini" and _gemini_login(environ) != "gemini-api-key":
        return "the Gemini CLI takes another address only with `Use Gemini API Key` chosen in /auth"
    if client == "qwen" and not environ.get(_OPENAI.name) and '"baseUrl"' in _settings("qwen", environ.get("HOME", "")):
        return "Qwen Code has an address of its own in its settings"
    return ""


def launch(
    command: Sequence[str], environ: Mapping[str, str], address: str, scratch: Path, kept: Sequence[str] = ()
) -> Launch:
    """The command and the environment with which a client's calls come to `address`; files go into `scratch`."""
    client = client_name(command)
    told = {each.name: address + each.path for each in variables(client) if each.name not in kept}
    arguments: tuple[str, ...] = ()
    if client == "codex":
        arguments = ("-c", f"openai_base_url={json.dumps(address + V1)}")
    elif client == "pi" and not (len(command) > 1 and command[1] in _PI_COMMANDS):
        arguments = ("--extension", str(_pi_extension(environ, address, scratch)))
    return Launch((command[0], *arguments, *command[1:]), {**environ, **told, **_past_proxies(environ)})


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


def _codex_has_key(program: str, environ: Mapping[str, str]) -> bool:
    """What Codex itself says. Logged in with ChatGPT its calls go to another service, and must."""
    try:
        done = subprocess.run(
            [program, "login", "status"],
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
    found = _selected(_settings("gemini", environ.get("GEMINI_CLI_HOME") or environ.get("HOME", "")))
    return "" if found is None else found[1]


def _settings(client: str, home: str) -> str:
    """The settings of the workspace and then the user's, as they stand in their files."""
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
