"""Who may come in: an access key where strangers can reach the gateway, the admin token for what is ours."""

from __future__ import annotations

import base64
import json
import logging
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.gateway.auth import Access, EntryPath

from .gate import Gated, Heard, Provider, eventually, gated, guarded, hear, spoken

BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"messages":[{"role":"user","content":"hello"}]}'
CREDENTIAL = ("x-api-key", "sk-ant-dummy")


class TestAccess:
    def test_nothing_without_the_key(self, provider: Provider, tmp_path: Path) -> None:
        with guarded(tmp_path, provider.address) as gate:
            file = gate.config.home / "access-key"
            key = file.read_text().strip()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            refused = [
                hear(gate.address, spoken("POST", path, (CREDENTIAL, *headers), BODY))
                for path, headers in (
                    ("/v1/messages", ()),
                    ("/v1/messages", (("x-holdfast-key", "wrong"),)),
                    ("/v1/messages", (("x-holdfast-key", ""),)),
                    ("/v1/messages", (("x-holdfast-key", key[:-1]),)),
                    ("/k/wrong/v1/messages", ()),
                    (f"/k/{key}x/v1/messages", ()),
                )
            ]
            assert {heard.status for heard in refused} == {401}
            assert len({heard.body for heard in refused}) == 1  # missing and wrong look the same
            assert json.loads(refused[0].body)["error"]["type"] == "authentication_error"
            assert provider.received == []
            for data in (
                spoken(headers=(CREDENTIAL, ("x-holdfast-key", key)), body=BODY),
                spoken("POST", f"/k/{key}/v1/messages", (CREDENTIAL,), BODY),
                spoken("POST", f"/run/a1/k/{key}/v1/messages", (CREDENTIAL,), BODY),
            ):
                assert hear(gate.address, data).status == 200
            assert all(key.encode() not in each.line + repr(each.headers).encode() for each in provider.received)
            store = gate.store
            eventually(lambda: "gateway.auth_failed" in [e.type for e in store.events("local", "gateway")])

    def test_even_what_is_not_served_is_not_told(self, provider: Provider, tmp_path: Path) -> None:
        with guarded(tmp_path, provider.address) as gate:
            for path in ("/nothing", "/", "/v1/models"):
                assert hear(gate.address, spoken("POST", path)).status == 401
            assert hear(gate.address, spoken("GET", "/healthz")).status == 200

    def test_loopback_needs_none(self, provider: Provider, tmp_path: Path) -> None:
        with gated(tmp_path, provider.address) as gate:
            assert hear(gate.address, spoken(headers=(CREDENTIAL,), body=BODY)).status == 200
            assert hear(gate.address, spoken("POST", "/k/anything/v1/messages", (CREDENTIAL,), BODY)).status == 200
            assert not (gate.config.home / "access-key").exists()

    def test_odd_keys(self) -> None:
        access = Access("the-key-of-this-installation")
        assert not access.allows(EntryPath("/"), {"x-holdfast-key": "\udcff é"})
        assert access.allows(EntryPath("/", key="the-key-of-this-installation"), {"x-holdfast-key": ""})


def ask(gate: Gated, path: str = "/analytics/sessions", host: str | None = None, **headers: str) -> Heard:
    lines = [f"GET {path} HTTP/1.1", f"host: {host or gate.address.removeprefix('http://')}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return hear(gate.address, "\r\n".join(lines).encode() + b"\r\n\r\n")


class TestAdmin:
    PATHS = ("/calls/x", "/analytics/cache_effectiveness", "/analytics/breaks", "/analytics/skills", "/runs/x")

    @pytest.mark.parametrize("path", PATHS)
    def test_only_with_the_token(self, gate: Gated, path: str) -> None:
        for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {gate.token}"}):
            heard = ask(gate, path, **given)
            assert (heard.status, "admin-token" in heard.body.decode()) == (401, True)
        assert ask(gate, path, authorization=f"Bearer {gate.token}").status in (200, 404)
        store = gate.store
        eventually(lambda: [e.type for e in store.events("local", "gateway")] == ["gateway.auth_failed"])
        assert stat.S_IMODE((gate.config.home / "admin-token").stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.test"},
            {"origin": "null"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site"},
            {"host": "evil.test:8788"},
            {"host": "127.0.0.1.evil.test"},
            {"host": "[::1"},
        ],
    )
    def test_no_page_of_another_origin(self, gate: Gated, headers: dict[str, Any]) -> None:
        heard = ask(gate, authorization=f"Bearer {gate.token}", **headers)
        assert heard.status == 403
        assert not [name for name, _ in heard.headers() if name.startswith("access-control")]

    @pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8788", "127.9.9.9"])
    def test_the_machine_by_its_names(self, gate: Gated, host: str) -> None:
        assert ask(gate, host=host, authorization=f"bearer {gate.token}").status == 200

    def test_pages_of_the_gateway_itself(self, gate: Gated) -> None:
        given = {"authorization": f"Bearer {gate.token}", "sec_fetch_site": "same-origin"}
        assert ask(gate, origin=gate.address, **given).status == 200

    def test_the_providers_key_is_none(self, gate: Gated) -> None:
        assert ask(gate, authorization="Bearer sk-ant-dummy").status == 401


Place = Callable[[str], tuple[str, tuple[tuple[str, str], ...]]]
"""The path, and the headers, of a request that carries a key."""


def twice(text: str) -> str:
    return quote(quote(text, safe=""), safe="").replace("-", "%2D").replace("_", "%255F")


def hexed(text: str) -> str:
    return "".join(f"%{each:02x}" for each in text.encode())


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FILLER = ("authorization", "Bearer sk-filler")
PLACES: dict[str, Place] = {
    "bearer": lambda key: ("/v1/chat/completions", (("authorization", f"Bearer {key}"),)),
    "second header": lambda key: ("/v1/chat/completions", (FILLER, ("Authorization", f"Bearer {key}"))),
    "another scheme": lambda key: ("/v1/chat/completions", (("AUTHORIZATION", f"Token {key}"),)),
    "no scheme": lambda key: ("/v1/chat/completions", (("authorization", key),)),
    "within a list": lambda key: ("/v1/chat/completions", (("authorization", f"Bearer sk-x, Bearer {key}"),)),
    "basic, as the password": lambda key: ("/v1/files", (("authorization", f"Basic {coded(f'me:{key}')}"),)),
    "basic, as the name": lambda key: ("/v1/files", (("authorization", f"Basic {coded(f'{key}:')}"),)),
    "basic, aligned otherwise": lambda key: ("/v1/files", (("authorization", f"Basic {coded(f'ab:{key}:x')}"),)),
    "x-api-key": lambda key: ("/v1/messages", (("X-Api-Key", key),)),
    "second x-api-key": lambda key: ("/v1/messages", (("x-api-key", "sk"), ("X-API-KEY", f" {key} "))),
    "x-goog-api-key": lambda key: ("/v1beta/models", (("x-goog-api-key", key),)),
    "azure": lambda key: ("/v1/chat/completions", (("api-key", key),)),
    "cookie": lambda key: ("/v1/messages", (("cookie", f"theme=dark; holdfast={key}; a=b"),)),
    "encoded cookie": lambda key: ("/v1/messages", (("cookie", f"holdfast={hexed(key)}"),)),
    "referer": lambda key: ("/v1/messages", (("referer", f"http://127.0.0.1:8788/?token={key}"),)),
    "any header": lambda key: ("/v1/messages", (("x-whatever", f"prefix{key}suffix"),)),
    "a header's name": lambda key: ("/v1/messages", ((key, "1"),)),
    "?token": lambda key: (f"/v1/messages?token={key}", ()),
    "?key": lambda key: (f"/v1beta/models?key={key}", ()),
    "?key, encoded": lambda key: (f"/v1beta/models?alt=sse&key={hexed(key)}", ()),
    "?key, encoded twice": lambda key: (f"/v1beta/models?key={twice(hexed(key))}", ()),
    "query without a name": lambda key: (f"/v1/models?{key}", ()),
    "hex": lambda key: (f"/v1/models?x={key.encode().hex().upper()}", ()),
    "path": lambda key: (f"/v1/files/{key}", ()),
    "path behind a prefix": lambda key: (f"/anthropic/k/{key}/v1/messages", ()),
    "path, encoded": lambda key: (f"/openai/v1/{hexed(key)}", ()),
}


def raw(provider: Provider) -> bytes:
    return b"\n".join(b"%b %r" % (each.line, each.headers) for each in provider.received)


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("place", PLACES)
def test_the_token_never_goes_to_a_provider(gate: Gated, provider: Provider, place: str, method: str) -> None:
    path, headers = PLACES[place](gate.token)
    heard = hear(gate.address, spoken(method, path, headers, BODY if method == "POST" else b""))
    assert (heard.status, provider.received) == (403, [])
    assert b"not for providers" in heard.body
    assert gate.token.encode() not in heard.data


def test_the_access_key_never_goes_to_a_provider(provider: Provider, tmp_path: Path) -> None:
    with guarded(tmp_path, provider.address) as gate:
        key = (gate.config.home / "access-key").read_text().strip()

        def ask(path: str, *headers: tuple[str, str]) -> Heard:
            return hear(gate.address, spoken("POST", path, headers, BODY))

        for place in PLACES.values():
            path, headers = place(key)
            assert ask(path, ("x-holdfast-key", key), *headers).status == 403
            assert ask(f"/k/{key}{path}", *headers).status == 403
        assert provider.received == []
        assert ask("/v1/messages", CREDENTIAL, ("x-holdfast-key", key), ("X-Holdfast-Key", key)).status == 200
        assert ask(f"/k/{key}/run/a/v1/messages", CREDENTIAL).status == 200
        assert len(provider.received) == 2
        assert key.encode() not in raw(provider)


def test_the_providers_own_keys_pass(gate: Gated, provider: Provider) -> None:
    """What looks like a key of ours and is none is the provider's business."""
    near = gate.token[:20] + ("0" if gate.token[20] != "0" else "1") + gate.token[21:]
    for place in PLACES.values():
        path, headers = place(near)
        assert hear(gate.address, spoken("GET", path, headers)).status == 200
    assert len(provider.received) == len(PLACES)


def test_what_is_ours_still_takes_it(gate: Gated) -> None:
    bearer = (("authorization", f"Bearer {gate.token}"),)
    assert hear(gate.address, spoken("GET", "/analytics/sessions", bearer)).status == 200
    assert b"Holdfast" in hear(gate.address, spoken("GET", "/", bearer)).body


def test_no_line_repeats_it(provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with gated(tmp_path, provider.address) as gate:
        for place in PLACES.values():
            path, headers = place(gate.token)
            hear(gate.address, spoken("POST", path, headers, BODY))
        assert [each.reason for each in gate.refused] == ["own key"] * len(PLACES)
        assert gate.token not in "".join(each.path for each in gate.refused) + caplog.text
