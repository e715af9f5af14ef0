"""Tenants: every kind of credential tells them apart, and an account goes on when its login token is renewed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from holdfast import report
from holdfast.engine.identity.identities import LOCAL
from holdfast.engine.lane import Lane
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.server import running
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.server import running as provider_running
from tests.clients.programs import Watched

from .gate import Gated, configured, eventually

CHAT = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "Hello."}]}
SIGNED = "AWS4-HMAC-SHA256 Credential={key}/20261118/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature={by}"


class TestCredentials:
    @pytest.mark.parametrize(
        ("one", "two"),
        [
            ({"api-key": "k1"}, {"api-key": "k2"}),
            ({"x-api-key": "k1"}, {"x-api-key": "k2"}),
            ({"x-goog-api-key": "k1"}, {"x-goog-api-key": "k2"}),
            ({"authorization": "Bearer k1"}, {"authorization": "Bearer k2"}),
            ({"cf-aig-authorization": "Bearer k1"}, {"cf-aig-authorization": "Bearer k2"}),
            ({"ocp-apim-subscription-key": "k1"}, {"ocp-apim-subscription-key": "k2"}),
            ({"authorization": SIGNED.format(key="A1", by="f")}, {"authorization": SIGNED.format(key="A2", by="f")}),
        ],
        ids=lambda headers: next(iter(headers)),
    )
    def test_each_kind_tells_tenants_apart(self, gate: Gated, one: dict[str, str], two: dict[str, str]) -> None:
        """Two keys that say the same: nothing of one conversation may be found by the other."""
        tenants = {self.asked(gate, headers) for headers in (one, two)}
        assert len(tenants) == 2
        assert LOCAL not in tenants

    def test_a_signature_is_another_each_time_and_its_key_is_not(self, gate: Gated) -> None:
        first, again = (SIGNED.format(key="AKIA1", by=by) for by in ("5d672d79", "a44b9c01"))
        assert self.asked(gate, {"authorization": first}) == self.asked(gate, {"authorization": again})

    def asked(self, gate: Gated, headers: dict[str, str]) -> str:
        before = len(gate.calls)
        httpx.post(f"{gate.address}/v1/chat/completions", headers=headers, json=CHAT)
        eventually(lambda: len(gate.calls) > before)
        passage = gate.calls[-1].passage
        return passage.lane.tenant


# A login that is renewed

TABS, SPACES = "likes tabs, said under the first token", "likes spaces"
TOOLS = [{"name": "bash", "description": "Run a command. " * 40, "input_schema": {"type": "object"}}]


class Client:
    """Claude Code as far as its identity goes: one conversation, whatever its token."""

    def __init__(self, address: str, key: str = "", *, account: str = "acc-1", session: str = "sess-1") -> None:
        self.address, self.key, self.session = address, key, session
        self.user = json.dumps({"device_id": "dev-1", "account_uuid": account, "session_id": session})
        self.turns: list[dict[str, Any]] = []

    def ask(self, token: str, memory: str, *, user: str | None = None) -> httpx.Response:
        self.turns.append({"role": "user", "content": f"Question {len(self.turns)}. " + "And so on. " * 30})
        body = {
            "model": "claude-sonnet-4-6",
            "max_tokens": 500,
            "metadata": {"user_id": user or self.user},
            "tools": TOOLS,
            "system": [{"type": "text", "text": "You help with code. " * 400 + f"\n\n# Memory\n- {memory}\n"}],
            "messages": self.turns,
        }
        headers = {
            "authorization": f"Bearer {token}",
            "anthropic-version": "2023-06-01",
            "user-agent": "claude-cli/2.1.325 (external, cli)",
            "x-claude-code-session-id": self.session,
            **({"x-holdfast-key": self.key} if self.key else {}),
        }
        answer = httpx.post(f"{self.address}/v1/messages", headers=headers, json=body, timeout=20)
        assert answer.status_code == 200, answer.text
        self.turns.append({"role": "assistant", "content": answer.json()["content"]})
        return answer


def token(name: str, organisation: str = "acme") -> str:
    """A Claude login's token; the simulator takes what stands behind the `@` for its organisation."""
    return f"sk-ant-oat01-{name}@{organisation}"


@contextlib.contextmanager
def at(home: Path, simulator: Watched, host: str = "127.0.0.1") -> Iterator[tuple[str, str, Gateway]]:
    """A gateway that edits what logins send, its access key, and what it is made of. It listens here, whatever it is
    made for."""
    with provider_running(simulator) as upstream:
        config = configured(home, upstream, gateway__subscriptions="manage", cache__repair="on")
        gateway = Gateway(config, host=host)
        with running(config, gateway=gateway) as address:
            key = (config.home / "access-key").read_text().strip() if gateway.needs_key else ""
            yield address, key, gateway


def sent(simulator: Watched) -> list[str]:
    return [json.dumps(body) for body in simulator.bodies()]


def tenants(gateway: Gateway) -> list[str]:
    gateway.store.flush()
    return [session.tenant for session in gateway.store.sessions()]


def calls(gateway: Gateway) -> list[tuple[str, str | None]]:
    """Tenant and reset of each call."""
    gateway.store.flush()
    return [(call.tenant, call.reset) for call in gateway.store.calls()]


def begin(client: Client) -> None:
    """A conversation under the first token, in which something of its text is kept by us."""
    client.ask(token("one"), TABS)
    client.ask(token("one"), SPACES)


class TestOnThisMachine:
    def test_its_lanes_go_on_with_their_edits(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator) as (address, _, gateway):
            client = Client(address)
            begin(client)
            assert TABS in sent(simulator)[1]  # the text that was sent first is kept
            client.ask(token("two"), SPACES)  # not known yet whose it is
            assert TABS not in sent(simulator)[2]
            client.ask(token("two"), SPACES)  # the first answer has said so
            assert TABS in sent(simulator)[3]
            assert simulator.requests()[-1]["usage"]["read"] > 2_000
            assert len(set(tenants(gateway))) == 2  # the account's, and the one request's before it was known
            assert gateway.store is not None
            assert report.session(gateway.store, "sess-1").session.calls == 3  # without asking which tenant is meant

    def test_it_is_known_after_a_restart(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator) as (address, _, _gateway):
            client = Client(address)
            begin(client)
            client.ask(token("two"), SPACES)
        with at(tmp_path, simulator) as (address, _, _gateway):
            client.address = address
            client.ask(token("two"), SPACES)
            assert TABS in sent(simulator)[-1]
            client.ask(token("three"), SPACES)  # renewed once more: the link itself was kept
            client.ask(token("three"), SPACES)
            assert TABS in sent(simulator)[-1]

    @pytest.mark.parametrize("what", ["another organisation", "another client", "an answer that names none"])
    def test_neither_side_links_alone(self, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
        if what == "an answer that names none":
            monkeypatch.setattr("holdfast.simulator.checks.organisation_headers", lambda *_: ())
        simulator = Watched()
        with at(tmp_path, simulator) as (address, _, gateway):
            client = Client(address)
            begin(client)
            other = token("two", "evil" if what == "another organisation" else "acme")
            user = Client(address, account="acc-2").user if what == "another client" else None
            for _ in range(3):
                client.ask(other, SPACES, user=user)
            assert all(TABS not in body for body in sent(simulator)[2:])
            assert len(set(tenants(gateway))) == 2

    def test_an_api_key_never_takes_over_a_login(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator) as (address, _, _gateway):
            client = Client(address)
            begin(client)
            for _ in range(2):
                client.ask("sk-ant-api03-key@acme", SPACES)
            assert all(TABS not in body for body in sent(simulator)[2:])


class TestElsewhere:
    """A colleague of the same organisation may know another's ids: no text of his may reach him."""

    def test_no_text_crosses_and_the_lane_says_why(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator, "0.0.0.0") as (address, key, gateway):
            client = Client(address, key)
            begin(client)
            assert TABS in sent(simulator)[1]
            for _ in range(3):
                client.ask(token("two"), SPACES)
            assert all(TABS not in body for body in sent(simulator)[2:])
            assert [reset for _, reset in calls(gateway)][2:] == [None, "repair_forgotten", None]
            assert len(set(tenants(gateway))) == 2

    def test_digests_and_statistics_do(self, tmp_path: Path) -> None:
        """Another conversation of the account: what it sent under the first token is what the next is compared with."""
        simulator = Watched()
        with at(tmp_path, simulator, "0.0.0.0") as (address, key, gateway):
            begin(Client(address, key))
            other = Client(address, key, session="sess-2")
            begin(other)
            Client(address, key, session="sess-3").ask(token("two"), SPACES)  # the login is renewed here
            other.ask(token("two"), SPACES)
            assert TABS not in sent(simulator)[-1]
            assert calls(gateway)[-1][1] == "repair_forgotten"
            found = gateway.passages
            ours = found.identities.tenant({"authorization": f"Bearer {token('two')}"}, "")
            lane = Lane(tenant=ours, session="sess-2", id="sess-2/main/claude-sonnet-4-6")
            ledger = found.engine.ledger(lane, now=0.0)
            assert ledger.requests == 3  # two of them under the first token
            assert not ledger.edits
            before = replace(lane, tenant=found.identities.tenant({"authorization": f"Bearer {token('one')}"}, ""))
            assert found.engine.ledger(before, now=0.0).requests == 2  # its own goes on for itself

    def test_what_is_cached_for_the_organisation_is_foreseen(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator, "0.0.0.0") as (address, key, _gateway):
            client = Client(address, key)
            for _ in range(2):
                client.ask(token("one"), SPACES)
            Client(address, key, session="sess-2").ask(token("two"), TABS)  # the login is renewed here
            answer = client.ask(token("two"), SPACES)
            read = simulator.requests()[-1]["usage"]["read"]
            assert read > 1_000
            assert answer.headers["x-holdfast-prediction"].startswith(f"read={read};")
            assert "x-holdfast-reset" not in answer.headers

    def test_an_answer_that_refuses_links_nothing(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator, "0.0.0.0") as (address, key, gateway):
            client = Client(address, key)
            begin(client)
            simulator.faults.add(Fault(kind="status", options=Options(status=403)))
            with pytest.raises(AssertionError, match="403"):
                client.ask(token("two"), SPACES)
            assert gateway.passages.identities.before(calls(gateway)[-1][0]) == ""

    def test_what_links_them_holds_no_token_and_no_id(self, tmp_path: Path) -> None:
        simulator = Watched()
        with at(tmp_path, simulator, "0.0.0.0") as (address, key, gateway):
            client = Client(address, key)
            begin(client)
            client.ask(token("two"), SPACES)
            tenants(gateway)
        kept = b"".join(each.read_bytes() for each in (tmp_path / "holdfast").rglob("*") if each.is_file())
        for secret in ("oat01", "dev-1", "acc-1"):
            assert secret.encode() not in kept


def test_side_requests_say_so_too(tmp_path: Path) -> None:
    """The first request with a new token is mostly one for a title or a quota: then the conversation itself goes on
    without a gap."""
    simulator = Watched()
    with at(tmp_path, simulator) as (address, _, _gateway):
        client = Client(address)
        begin(client)
        body = {
            "model": "claude-haiku-4-5",
            "max_tokens": 1,
            "metadata": {"user_id": client.user},
            "messages": [{"role": "user", "content": "quota"}],
        }
        headers = {
            "authorization": f"Bearer {token('two')}",
            "anthropic-version": "2023-06-01",
            "user-agent": "claude-cli/2.1.325 (external, cli)",
        }
        assert httpx.post(f"{address}/v1/messages", headers=headers, json=body).status_code == 200
        client.ask(token("two"), SPACES)
        assert TABS in sent(simulator)[-1]
