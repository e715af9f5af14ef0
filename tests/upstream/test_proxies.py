"""Proxies of the environment."""

from __future__ import annotations

import pytest

from holdfast.upstream.client import proxy_for

HOST = "api.example.test"
PROXIES = {"https": "http://proxy.test:3128", "http": "http://plain.test:3128"}


def test_by_scheme() -> None:
    assert proxy_for("https", HOST, PROXIES) == "http://proxy.test:3128"
    assert proxy_for("http", HOST, PROXIES) == "http://plain.test:3128"
    assert proxy_for("https", HOST, {}) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_asked_directly(host: str) -> None:
    assert proxy_for("http", host, PROXIES) is None


def test_what_the_environment_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "example.test")
    assert proxy_for("https", HOST, PROXIES) is None
