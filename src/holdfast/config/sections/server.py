"""Settings of the gateway, its upstreams, its limits, the store and the facts."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.config.sections.marks import MANY, Names, about, address, count, name

Hosts = tuple[Annotated[str, Meta(pattern=r"^(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\],*]+)(?::\d+)?\Z")], ...]
Origins = tuple[
    Annotated[str, Meta(pattern=r"^(?:null|(?![Hh][Tt]{2}[Pp][Ss]?://\*)[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#,]*/?)\Z")],
    ...,
]


class UpstreamSettings(Struct, frozen=True):
    """Where calls are forwarded to, one address per dialect; the path of the client's request is appended."""

    anthropic: Annotated[str, address("Server for Anthropic Messages calls.")] = "https://api.anthropic.com"
    openai: Annotated[str, address("Server for OpenAI Chat and Responses calls.")] = "https://api.openai.com"
    gemini: Annotated[str, address("Server for Gemini calls.")] = "https://generativelanguage.googleapis.com"
    openrouter: Annotated[str, address("Server for OpenRouter calls.")] = "https://openrouter.ai/api"


class LimitSettings(Struct, frozen=True):
    """What the gateway accepts before it answers with an error of its own."""

    body_bytes: Annotated[int, count("Largest request body.", least=1)] = 104_857_600
    connections: Annotated[int, count("Client connections at once.", least=1)] = 1000
    waiting_per_peer: Annotated[
        int,
        count(
            "Connections of one address that have had no request accepted yet; the oldest is closed for a new one.",
            least=1,
        ),
    ] = 500
    silent_s: Annotated[
        float, about("Seconds in which such a connection must begin its next request.", gt=0, le=MANY)
    ] = 10.0
    streams_per_tenant: Annotated[int, count("Open streams of one tenant.", least=1)] = 64
    connect_s: Annotated[float, about("Seconds to wait for a connection to the provider.", gt=0, le=MANY)] = 10.0
    idle_s: Annotated[float, about("Seconds a provider may stay silent within a call.", gt=0, le=MANY)] = 600.0
    shutdown_s: Annotated[float, about("Seconds open streams get to finish at shutdown.", ge=0, le=MANY)] = 30.0
    stages_ms: Annotated[
        float,
        about(
            "Milliseconds of processor time of our own work after which the client's bytes go on untouched; half a "
            "millisecond more for each kilobyte that was not in the request before.",
            gt=0,
            le=MANY,
        ),
    ] = 50.0
    wait_ms: Annotated[
        float,
        about(
            "Milliseconds that a request waits for the store; then it goes on without what is new in it, or untouched.",
            gt=0,
            le=MANY,
        ),
    ] = 1_000.0


class GatewaySettings(Struct, frozen=True):
    """The server that `holdfast serve` starts."""

    host: Annotated[str, name("Address to listen on; any but loopback needs an access key.", guarded=True)] = (
        "127.0.0.1"
    )
    port: Annotated[int, count("Port to listen on; 0 picks a free one.", most=65535)] = 8788
    hosts: Annotated[
        Hosts,
        about(
            "Names that requests may call the gateway by (Host): on loopback beside this machine's own, elsewhere only "
            "these, or any if there are none.",
            guarded=True,
            allowed="a list of host names, each with a port or without",
        ),
    ] = ()
    origins: Annotated[
        Origins,
        about(
            "Origins of web pages and webviews that may use the gateway, such as `http://localhost:3000`; "
            "`vscode-webview://*` stands for all of one scheme.",
            guarded=True,
            allowed='a list of origins (`SCHEME://HOST:PORT`, `SCHEME://*` except for http and https, or "null")',
        ),
    ] = ()
    headers: Annotated[bool, about("Add response headers with prediction, plan and call id.")] = True
    preflight: Annotated[
        Literal["off", "warn", "hold"],
        about("A turn predicted to cost more than `preflight_usd`: sent, sent with a warning, or held back."),
    ] = "warn"
    preflight_usd: (
        Annotated[float, about("Dollars above which `preflight` acts; unset: it never does.", ge=0, le=MANY)] | None
    ) = None
    subscriptions: Annotated[
        Literal["observe", "manage"],
        about(
            "Requests of subscription logins (Claude, ChatGPT): sent on as they came, or planned like all others.",
            guarded=True,
        ),
    ] = "observe"
    limits: LimitSettings = LimitSettings()


class StoreSettings(Struct, frozen=True):
    """Where sessions, calls and events are kept."""

    url: Annotated[
        str,
        about(
            "Database.",
            path=True,
            guarded=True,
            pattern=r"^sqlite:///[^\x00-\x1f\x7f]+\Z",
            allowed="an address of the form sqlite:///PATH",
        ),
    ] = "sqlite:///HOLDFAST_HOME/holdfast.db"
    keep_bodies: Annotated[
        bool,
        about(
            "Keep words of prompts in break reports and agents' events; else masked.",
            guarded=True,
        ),
    ] = False
    retention: Annotated[
        int, count("Days that calls, events and sessions of clients are kept; 0: for ever.", guarded=True)
    ] = 90


class FactsSettings(Struct, frozen=True):
    """What is known about models and prices."""

    overrides: Annotated[
        Names,
        about("Files, or names of shipped sets, whose values replace ours; the last wins.", path=True),
    ] = ()
