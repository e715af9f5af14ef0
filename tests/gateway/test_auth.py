"""Who may come in: an access key where strangers can reach the gateway, the admin token for what is ours."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway.assembly import Gateway
from holdfast.gateway.auth import Access, EntryPath
from holdfast.gateway.server import running

from .gate import Gated, Heard, Provider, configured, eventually, gated, hear, spoken

BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"messages":[{"role":"user","content":"hello"}]}'
CREDENTIAL = ("x-api-key", "sk-ant-dummy")


@contextmanager
def guarded(home: Path, upstream: str, **flags: Any) -> Iterator[Gated]:
    """A gateway as on an address that others can reach, listening where only we can."""
    config = configured(home, upstream, **flags)
    gateway = Gateway(config, host="0.0.0.0")
    with running(config, gateway=gateway) as address:
        yield Gated(address, gateway, config, [])


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
            store = gate.gateway.store
            assert store is not None
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
        store = gate.gateway.store
        assert store is not None
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
