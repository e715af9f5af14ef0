"""Which web pages may use the gateway: Host, Origin and Sec-Fetch-Site on every path, over bare sockets."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config import load
from holdfast.errors import HoldfastError
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.server import running
from tests.shapes import load as shapes

from .gate import Gated, Heard, Provider, configured, eventually, gated, hear

BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"messages":[{"role":"user","content":"hello"}]}'
GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent?key=attacker"
PROVIDERS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", GEMINI, "/openai/v1/files", "/v1/models")
OWN = ("/", "/healthz", "/analytics/sessions", "/calls/x", "/runs/x")
LISTED = "http://localhost:3000"


def ask(
    gate: Gated, path: str, *headers: tuple[str, str], host: str | None = None, method: str = "POST", body: bytes = BODY
) -> Heard:
    named = gate.address.removeprefix("http://") if host is None else host
    lines = [f"{method} {path} HTTP/1.1", *([f"host: {named}"] if named != "-" else []), "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    body = body if method == "POST" else b""
    lines += [f"content-length: {len(body)}"] if body else []
    return hear(gate.address, "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


def said(heard: Heard) -> str:
    message = json.loads(heard.body)["error"]["message"]
    assert isinstance(message, str)
    return message


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gated, Provider]]:
    """One gateway for all that is refused without a trace."""
    home = tmp_path_factory.mktemp("home")
    with Provider() as provider, gated(home, provider.address, gateway__hosts=["Docker.Internal", "gw:9"]) as gate:
        yield gate, provider


class TestHosts:
    WRONG = ("evil.example", "evil.example:8788", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0:8788")
    WRONG += ("2130706433", "[::1", "[::2]", "", "a@127.0.0.1", "127.0.0.1, evil.example", "127.0.0.1/evil", "gw:8")
    RIGHT = ("localhost", "LOCALHOST:1", "localhost.", "localhost.:8788", "127.0.0.1", "127.9.9.9:80", "[::1]:8788")
    RIGHT += ("docker.internal", "DOCKER.internal.:4", "gw:9")

    @pytest.mark.parametrize("path", [*PROVIDERS, *OWN])
    def test_of_others_are_refused_everywhere(self, stage: tuple[Gated, Provider], path: str) -> None:
        gate, provider = stage
        provider.received.clear()
        for host in self.WRONG:
            heard = ask(gate, path, host=host, method="GET" if path in OWN else "POST")
            assert (heard.status, "gateway.hosts" in said(heard)) == (403, True), host
        assert provider.received == []

    def test_who_is_refused_is_heard_out(self, stage: tuple[Gated, Provider]) -> None:
        """A connection that ends while a client still sends would take the answer with it."""
        heard = ask(stage[0], "/v1/messages", host="evil.example", body=bytes(8_000_000))
        assert (heard.status, heard.reset, "gateway.hosts" in said(heard)) == (403, False, True)

    @pytest.mark.parametrize("host", RIGHT)
    def test_of_this_machine_and_those_named_pass(self, stage: tuple[Gated, Provider], host: str) -> None:
        assert ask(stage[0], "/v1/messages", host=host).status == 200
        assert ask(stage[0], "/healthz", host=host, method="GET").status == 200

    def test_two_of_them_are_both_judged(self, stage: tuple[Gated, Provider]) -> None:
        for first, second in (("localhost", "evil.example"), ("evil.example", "localhost")):
            assert ask(stage[0], "/v1/messages", ("Host", second), host=first).status == 403

    def test_none_at_all_comes_from_no_browser(self, stage: tuple[Gated, Provider]) -> None:
        assert ask(stage[0], "/v1/messages", host="-").status == 200

    def test_the_message_says_what_to_write(self, stage: tuple[Gated, Provider]) -> None:
        message = said(ask(stage[0], "/v1/messages", host='evil"\\.example'))
        written = tomllib.loads(message.partition("write ")[2].partition(" under")[0])
        assert written == {"hosts": ['evil"\\.example']}

    @pytest.mark.parametrize(
        ("hosts", "passes"), [((), {"any.example", "127.0.0.1"}), (("any.example",), {"any.example"})]
    )
    def test_elsewhere_only_those_named_if_any(
        self, provider: Provider, tmp_path: Path, hosts: tuple[str, ...], passes: set[str]
    ) -> None:
        config = configured(tmp_path, provider.address, gateway__hosts=list(hosts))
        gateway = Gateway(config, host="0.0.0.0")
        with running(config, gateway=gateway) as address:
            gate = Gated(address, gateway, config, [])
            key = ("x-holdfast-key", (config.home / "access-key").read_text().strip())
            found = {each: ask(gate, "/v1/messages", key, host=each).status for each in ("any.example", "127.0.0.1")}
        assert {host for host, status in found.items() if status == 200} == passes
        assert set(found.values()) <= {200, 403}


class TestOrigins:
    FOREIGN = (
        (("origin", "https://evil.example"),),
        (("origin", "null"),),
        (("origin", "file://"),),
        (("origin", "vscode-webview://1a2b"),),
        (("origin", "app://127.0.0.1"),),
        (("origin", "http://localhost:1"),),
        (("origin", "http://["),),
        (("origin", ""),),
        (("sec-fetch-site", "cross-site"),),
        (("sec-fetch-site", "same-site"),),
        (("sec-fetch-site", "whatever"),),
        (("origin", LISTED), ("origin", "https://evil.example")),
        (("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")),
        (("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")),
    )

    @pytest.mark.parametrize("path", [*PROVIDERS, *OWN])
    def test_of_others_are_refused_everywhere(self, stage: tuple[Gated, Provider], path: str) -> None:
        gate, provider = stage
        provider.received.clear()
        for headers in self.FOREIGN:
            for method in ("GET",) if path in OWN else ("POST", "OPTIONS", "GET"):
                heard = ask(gate, path, *headers, method=method)
                assert heard.status == 403, (headers, method)
                assert not [name for name, _ in heard.headers() if name.startswith("access-control")]
                assert path in OWN or "gateway.origins" in said(heard)
        assert provider.received == []

    def test_a_simple_request_that_needs_no_permission(self, stage: tuple[Gated, Provider]) -> None:
        """No-cors, as plain text, to a path that takes its key from the address: a page can send it unasked."""
        gate, provider = stage
        provider.received.clear()
        headers = (("content-type", "text/plain"), ("origin", "https://evil.example"), ("sec-fetch-mode", "no-cors"))
        assert ask(gate, GEMINI, *headers, body=b'{"contents":[{"parts":[{"text":"hi"}]}]}').status == 403
        assert provider.received == []

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "file://", "app://obsidian.md"])
    def test_the_message_says_what_to_write(self, stage: tuple[Gated, Provider], origin: str, tmp_path: Path) -> None:
        message = said(ask(stage[0], "/v1/messages", ("origin", origin)))
        line = message.partition("write ")[2].partition(" under")[0]
        (tmp_path / "holdfast.toml").write_text(f"[gateway]\n{line}\n")
        assert load(workspace=None, home=tmp_path, environ={}, flags={}).settings.gateway.origins == (origin,)

    def test_it_is_told(self, provider: Provider, tmp_path: Path) -> None:
        with gated(tmp_path, provider.address) as gate:
            ask(gate, "/v1/messages", ("origin", "null"))
            ask(gate, "/v1/messages", host="evil.example")
            eventually(lambda: len(gate.refused) == 2)
            assert [(each.status, each.path, each.reason) for each in gate.refused] == [
                (403, "/v1/messages", "origin"),
                (403, "/v1/messages", "host"),
            ]
            store = gate.store
            eventually(lambda: [each.type for each in store.events("local", "gateway")] == ["gateway.auth_failed"] * 2)


class TestPrograms:
    def test_pass_whatever_else_they_send(self, stage: tuple[Gated, Provider]) -> None:
        direct = ("anthropic-dangerous-direct-browser-access", "true")  # Claude Code
        fetch = ("sec-fetch-mode", "cors")  # Node's fetch
        for headers in ((), (direct,), (fetch,), (direct, fetch)):
            assert ask(stage[0], "/v1/messages", *headers).status == 200

    def test_no_recorded_client_looks_like_a_page(self) -> None:
        """Each would be refused at its first request."""
        assert {shape.client for shape in shapes() if shape.header("origin") or shape.header("sec-fetch-site")} == set()

    @pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models"])
    @pytest.mark.parametrize("site", ["none", "same-origin"])
    def test_who_types_an_address_and_our_own_pages(self, stage: tuple[Gated, Provider], path: str, site: str) -> None:
        assert ask(stage[0], path, ("sec-fetch-site", site), method="GET").status == 200

    def test_our_own_pages_may_ask_for_all(self, stage: tuple[Gated, Provider]) -> None:
        own = (("origin", stage[0].address), ("sec-fetch-site", "same-origin"))
        assert ask(stage[0], "/v1/messages", *own).status == 200
        token = ("authorization", f"Bearer {stage[0].token}")
        assert ask(stage[0], "/analytics/sessions", *own, token, method="GET").status == 200

    def test_nobody_types_a_call(self, stage: tuple[Gated, Provider]) -> None:
        assert ask(stage[0], "/v1/messages", ("sec-fetch-site", "none")).status == 403


class TestListed:
    @pytest.fixture
    def gate(self, provider: Provider, tmp_path: Path) -> Iterator[Gated]:
        origins = [LISTED + "/", "vscode-webview://*", "null"]
        with gated(tmp_path, provider.address, gateway__origins=origins) as gate:
            yield gate

    def test_a_browser_that_asks_first_is_told(self, gate: Gated, provider: Provider) -> None:
        asked = (
            ("origin", LISTED),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,x-api-key"),
            ("access-control-request-private-network", "true"),
        )
        heard = ask(gate, "/v1/messages", *asked, method="OPTIONS")
        found = dict(heard.headers())
        assert (heard.status, found["access-control-allow-origin"], found["vary"]) == (204, LISTED, "Origin")
        assert found["access-control-allow-methods"] == "POST"
        assert found["access-control-allow-headers"] == "content-type,x-api-key"
        assert found["access-control-allow-private-network"] == "true"
        assert provider.received == []

    @pytest.mark.parametrize("origin", [LISTED, "vscode-webview://any", "null"])
    @pytest.mark.parametrize("path", ["/v1/messages", "/nowhere"])
    def test_answers_are_for_exactly_that_origin(self, gate: Gated, origin: str, path: str) -> None:
        heard = ask(gate, path, ("origin", origin), ("sec-fetch-site", "same-site"))
        found = [(name, value) for name, value in heard.headers() if name == "access-control-allow-origin"]
        assert (heard.status, found) == (404 if path == "/nowhere" else 200, [("access-control-allow-origin", origin)])
        assert "content-type" in dict(heard.headers())["access-control-expose-headers"] or path != "/nowhere"

    def test_what_the_provider_allows_does_not_count(self, tmp_path: Path) -> None:
        answer = b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\nrequest-id: r1\r\ncontent-length: 2\r\n\r\n{}"
        with Provider(answer) as provider, gated(tmp_path, provider.address, gateway__origins=[LISTED]) as gate:
            found = ask(gate, "/v1/messages", ("origin", LISTED)).headers()
        assert [value for name, value in found if name == "access-control-allow-origin"] == [LISTED]
        assert "request-id" in dict(found)["access-control-expose-headers"]

    def test_others_are_still_refused(self, gate: Gated, provider: Provider) -> None:
        for origin in ("http://localhost:3001", "http://localhost:3000.evil.example", "https://localhost:3000"):
            assert ask(gate, "/v1/messages", ("origin", origin)).status == 403
        assert provider.received == []

    @pytest.mark.parametrize("path", OWN)
    def test_what_is_ours_is_not_for_them(self, gate: Gated, path: str) -> None:
        token = ("authorization", f"Bearer {gate.token}")
        heard = ask(gate, path, ("origin", LISTED), token, method="GET")
        assert (heard.status, "access-control-allow-origin" in dict(heard.headers())) == (403, False)


@pytest.mark.parametrize("origin", ["*", "http://*", "HTTPS://*", "localhost:3000", "http://a/path", "http://a b"])
def test_no_setting_lets_everybody_in(tmp_path: Path, origin: str) -> None:
    with pytest.raises(HoldfastError, match=r"gateway\.origins"):
        configured(tmp_path, "http://127.0.0.1:9", gateway__origins=[origin])


@pytest.mark.parametrize("host", ["*", "*.example", "http://a", "a/b", "a,b", "a:b"])
def test_no_setting_takes_every_name(tmp_path: Path, host: str) -> None:
    with pytest.raises(HoldfastError, match=r"gateway\.hosts"):
        configured(tmp_path, "http://127.0.0.1:9", gateway__hosts=[host])
