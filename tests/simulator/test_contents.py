"""Gemini's cached contents over the wire: the objects, their end, and requests that name one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.messages import HttpRequest
from holdfast.simulator.provider import Simulator

MODEL = "gemini-2.5-flash"
LONG = {"role": "user", "parts": [{"text": "The loader reads every record of the file. " * 400}]}
USER = {"role": "user", "parts": [{"text": "How many records are there?"}]}
GONE = (
    403,
    {
        "error": {
            "code": 403,
            "message": "CachedContent not found (or permission denied)",
            "status": "PERMISSION_DENIED",
        }
    },
)


class Api:
    """The side of the API that is about cached contents, on a clock that stands still."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.simulator = Simulator(clock=self.clock)

    def send(self, method: str, path: str, body: Any = None, *, key: str = "one", query: Any = None) -> tuple[int, Any]:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"x-goog-api-key": key} if key else {}
        answer = self.simulator.answer(HttpRequest(method, f"/v1beta/{path}", headers, query or {}, raw))
        return answer.status, json.loads(answer.body)

    def create(self, **members: Any) -> tuple[int, Any]:
        return self.send("POST", "cachedContents", {"model": f"models/{MODEL}", "contents": [LONG]} | members)

    def made(self, **members: Any) -> str:
        status, made = self.create(**members)
        assert status == 200, made
        return str(made["name"])

    def generate(self, name: str, *, model: str = MODEL, key: str = "one", **members: Any) -> tuple[int, Any]:
        body = {"contents": [USER], "cachedContent": name} | members
        return self.send("POST", f"models/{model}:generateContent", body, key=key)


@pytest.fixture
def api() -> Api:
    return Api()


class TestCreate:
    def test_it_shows_what_it_is_and_not_what_it_holds(self, api: Api) -> None:
        status, made = api.create(displayName="records", systemInstruction={"parts": [{"text": "Be brief."}]})
        assert status == 200
        assert made["name"].startswith("cachedContents/")
        assert (made["model"], made["displayName"]) == (f"models/{MODEL}", "records")
        assert made["usageMetadata"]["totalTokenCount"] > 2048
        assert made.keys() == {
            *("name", "model", "createTime", "updateTime", "expireTime", "displayName", "usageMetadata")
        }

    def test_it_lives_an_hour_unless_told_otherwise(self, api: Api) -> None:
        made = api.create()[1]
        assert (made["createTime"], made["expireTime"]) == (
            "2027-01-15T08:00:00.000000Z",
            "2027-01-15T09:00:00.000000Z",
        )
        assert api.create(ttl="90.5s")[1]["expireTime"] == "2027-01-15T08:01:30.500000Z"
        assert api.create(expireTime="2027-01-15T10:00:00Z")[1]["expireTime"] == "2027-01-15T10:00:00.000000Z"

    def test_a_name_that_is_half_a_character(self, api: Api) -> None:
        assert api.create(displayName="\ud800")[1]["displayName"] == "?"

    def test_too_small(self, api: Api) -> None:
        status, found = api.create(contents=[USER])
        assert status == 400
        assert found["error"]["status"] == "INVALID_ARGUMENT"
        assert found["error"]["message"].startswith("Cached content is too small. total_token_count=")
        assert found["error"]["message"].endswith(", min_total_token_count=2048")

    @pytest.mark.parametrize(
        ("members", "status", "words"),
        [
            ({"model": ""}, 400, "model is not specified"),
            ({"model": "models/claude-opus-5"}, 404, "models/claude-opus-5 is not found for API version v1beta"),
            ({"model": "models/gemini-unheard-of"}, 404, "is not supported for createCachedContent"),
            ({"ttl": "300"}, 400, "duration must end with 's'"),
            ({"ttl": 300}, 400, "duration must end with 's'"),
            ({"ttl": "0s"}, 400, "cannot end before it begins"),
            ({"ttl": "300s", "expireTime": "2027-01-15T10:00:00Z"}, 400, "Cannot set 'ttl'"),
            ({"expireTime": "tomorrow"}, 400, "Illegal timestamp format"),
            ({"expireTime": "2027-01-15T10:00:00"}, 400, "Illegal timestamp format"),
            ({"expireTime": "2020-01-15T10:00:00Z"}, 400, "cannot end before it begins"),
            ({"contents": 7}, 400, "Invalid value at 'contents'"),
        ],
    )
    def test_refused(self, api: Api, members: dict[str, Any], status: int, words: str) -> None:
        found = api.create(**members)
        assert found[0] == status
        assert words in found[1]["error"]["message"]

    def test_no_key(self, api: Api) -> None:
        assert api.send("GET", "cachedContents", key="")[0] == 403


class TestObject:
    def test_get(self, api: Api) -> None:
        status, made = api.create()
        assert (status, made) == api.send("GET", made["name"])

    def test_delete(self, api: Api) -> None:
        name = api.made()
        assert api.send("DELETE", name) == (200, {})
        assert api.send("GET", name) == GONE
        assert api.send("DELETE", name) == GONE
        assert api.send("PATCH", name, {"ttl": "60s"}) == GONE

    def test_nobody_sees_anothers(self, api: Api) -> None:
        name = api.made()
        assert api.send("GET", name, key="two") == GONE
        assert api.send("GET", "cachedContents", key="two") == (200, {})

    def test_expiry(self, api: Api) -> None:
        name = api.made(ttl="60s")
        api.clock.advance(60)
        assert api.send("GET", name)[0] == 200
        api.clock.advance(0.001)
        assert api.send("GET", name) == GONE
        assert api.send("GET", "cachedContents") == (200, {})

    @pytest.mark.parametrize("query", [{}, {"updateMask": "ttl"}, {"updateMask": "cachedContent.ttl"}])
    def test_patch_moves_the_end(self, api: Api, query: dict[str, str]) -> None:
        name = api.made(ttl="60s")
        api.clock.advance(30)
        status, patched = api.send("PATCH", name, {"ttl": "60s"}, query=query)
        assert (status, patched["expireTime"]) == (200, "2027-01-15T08:01:30.000000Z")
        assert (patched["createTime"], patched["updateTime"]) == (
            "2027-01-15T08:00:00.000000Z",
            "2027-01-15T08:00:30.000000Z",
        )
        assert api.send("PATCH", name, {"expireTime": "2027-01-15T12:00:00Z"})[1]["expireTime"].startswith(
            "2027-01-15T12"
        )

    @pytest.mark.parametrize(
        ("body", "query", "words"),
        [
            ({"displayName": "x"}, {}, "not displayName"),
            ({"contents": [USER]}, {}, "not contents"),
            ({"ttl": "60s"}, {"updateMask": "ttl,contents"}, "not contents"),
            ({}, {}, "needs either ttl or expire_time"),
            (b"{", {}, "Invalid JSON payload"),
        ],
    )
    def test_patch_moves_nothing_else(self, api: Api, body: Any, query: dict[str, str], words: str) -> None:
        status, found = api.send("PATCH", api.made(), body, query=query)
        assert status == 400
        assert words in found["error"]["message"]

    @pytest.mark.parametrize(("method", "path"), [("PUT", "cachedContents"), ("POST", "cachedContents/1")])
    def test_other_methods(self, api: Api, method: str, path: str) -> None:
        assert api.send(method, path, {})[0] == 404


class TestList:
    def test_pages(self, api: Api) -> None:
        names = [api.made() for _ in range(3)]
        assert [each["name"] for each in api.send("GET", "cachedContents")[1]["cachedContents"]] == names
        first = api.send("GET", "cachedContents", query={"pageSize": "2"})[1]
        assert [each["name"] for each in first["cachedContents"]] == names[:2]
        second = api.send("GET", "cachedContents", query={"pageSize": "2", "pageToken": first["nextPageToken"]})[1]
        assert [each["name"] for each in second["cachedContents"]] == names[2:]
        assert "nextPageToken" not in second

    def test_a_page_that_is_no_number(self, api: Api) -> None:
        assert api.send("GET", "cachedContents", query={"pageSize": "many"})[0] == 400


class TestUse:
    def test_its_tokens_are_read_whatever_chance_says(self, api: Api) -> None:
        status, made = api.create()
        tokens = made["usageMetadata"]["totalTokenCount"]
        for _ in range(5):
            status, reply = api.generate(made["name"])
            assert status == 200
            assert reply["usageMetadata"]["cachedContentTokenCount"] == tokens
            assert reply["usageMetadata"]["promptTokenCount"] > tokens

    def test_a_vanished_object(self, api: Api) -> None:
        name = api.made(ttl="60s")
        assert api.generate("cachedContents/unknown") == GONE
        assert api.generate(name, key="two") == GONE
        api.clock.advance(61)
        assert api.generate(name) == GONE

    def test_another_model(self, api: Api) -> None:
        status, found = api.generate(api.made(), model="gemini-2.5-pro")
        assert status == 400
        assert found["error"]["message"] == (
            "Model used by GenerateContent request (models/gemini-2.5-pro) "
            "and CachedContent (models/gemini-2.5-flash) has to be the same."
        )

    def test_with_what_it_already_holds(self, api: Api) -> None:
        status, found = api.generate(api.made(), tools=[])
        assert status == 400
        assert found["error"]["message"].startswith("CachedContent can not be used with GenerateContent request")

    def test_it_is_listed_among_the_entries(self, api: Api) -> None:
        name = api.made()
        api.generate(name)
        assert any(entry["key"] == name for entry in api.simulator.entries())
