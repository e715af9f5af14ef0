"""The admin token and the access key are for the gateway: however they are sent, no provider sees them."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from .gate import Gated, Heard, Provider, gated, hear, spoken
from .test_auth import BODY, CREDENTIAL, guarded

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
