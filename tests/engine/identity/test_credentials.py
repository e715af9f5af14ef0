"""Tenants: the same secret is the same tenant wherever it stands, and nothing of it is kept."""

from __future__ import annotations

import gc

import pytest

from holdfast.engine.identity import Identities, credentials_of
from tests.engine.identity.desk import KEY, Desk, words

SECRET = "sk-planted-6f1c"


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"authorization": f"Bearer {SECRET}"}, ""),
        ({"authorization": f"bearer   {SECRET} "}, ""),
        ({"authorization": f"BASIC {SECRET}"}, ""),
        ({"authorization": SECRET}, ""),
        ({"x-api-key": SECRET}, ""),
        ({"x-api-key": f" {SECRET} "}, ""),
        ({"x-goog-api-key": SECRET}, ""),
        ({"api-key": SECRET}, ""),
        ({"cf-aig-authorization": f"Bearer {SECRET}"}, ""),
        ({"ocp-apim-subscription-key": SECRET}, ""),
        ({"authorization": f"AWS4-HMAC-SHA256 Credential={SECRET}/20261118/eu/bedrock/aws4_request, Signature=1"}, ""),
        ({"authorization": f"AWS4-ECDSA-P256-SHA256 SignedHeaders=host,Credential={SECRET}/x, Signature=2"}, ""),
        ({}, f"X-Amz-Signature=1&X-Amz-Credential={SECRET}%2F20261118%2Feu"),
        ({}, f"api-key={SECRET}"),
        ({}, f"key={SECRET}"),
        ({}, f"?alt=sse&key={SECRET}"),
        ({}, f"access_token={SECRET}&alt=sse"),
        ({}, "k%65y=sk%2Dplanted-6f1c"),
        ({"authorization": f"Bearer {SECRET}", "x-api-key": SECRET}, f"key={SECRET}"),
    ],
)
def test_the_same_secret_is_the_same_tenant_wherever_it_stands(headers: dict[str, str], query: str) -> None:
    identities = Identities(KEY)
    assert credentials_of(headers, query) == [SECRET]
    assert identities.tenant(headers, query) == identities.tenant({"x-api-key": SECRET}, "")


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"authorization": ""}, "alt=sse"),
        ({"authorization": "Bearer"}, "key="),
        ({"authorization": "Bearer "}, "monkey=1&key=%20"),
        ({"x-api-key": " "}, "&&=&=x"),
    ],
)
def test_without_a_credential_there_is_one_tenant(headers: dict[str, str], query: str) -> None:
    assert credentials_of(headers, query) == []
    assert Identities(KEY).tenant(headers, query) == "local"


def test_a_tenant_is_a_keyed_digest() -> None:
    name = Identities(KEY).tenant({"x-api-key": SECRET}, "")
    assert name.startswith("t-")
    assert len(name) == 34
    assert SECRET not in name
    assert name != Identities(b"another key").tenant({"x-api-key": SECRET}, "")


def test_who_sends_a_filler_and_a_key_is_told_apart_by_the_key() -> None:
    identities = Identities(KEY)
    tenants = [
        identities.tenant({"authorization": "Bearer dummy", "x-api-key": key}, "") for key in ("one", "two", "one")
    ]
    assert tenants[0] == tenants[2] != tenants[1]
    assert identities.tenant({"authorization": "Bearer one", "x-api-key": "dummy"}, "") == tenants[0]


def test_no_credential_is_kept() -> None:
    desk = Desk()
    secret = "-".join(("sk", "planted", "in", "pieces"))
    for headers, query in (({"x-api-key": secret}, ""), ({"authorization": f"Bearer {secret}"}, f"key={secret}")):
        body = desk.body("anthropic", words("Hello", "Hi", "Go on"))
        found = desk.send(headers, body, query)
        desk.identities.answered(found, "resp_1")
        assert secret not in repr(found)
    gc.collect()
    del headers, query
    kept = [each for each in _reachable(desk.identities) if isinstance(each, str | bytes)]
    assert found.lane.tenant in kept
    assert [each for each in kept if secret in (each if isinstance(each, str) else each.decode("latin-1"))] == []


def _reachable(root: object) -> list[object]:
    """What hangs on an object, by attributes and containers; not its classes and modules."""
    seen: dict[int, object] = {}
    queue: list[object] = [root]
    while queue:
        each = queue.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen[id(each)] = each
        queue += gc.get_referents(each)
        fields = getattr(type(each), "__struct_fields__", ())
        queue += [getattr(each, name) for name in fields]
    return list(seen.values())
