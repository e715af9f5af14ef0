"""Pages of other origins in a real Chromium, which try everything to get at the memory of this machine's user."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.server import running as simulating
from tests.browser import Browser, Visit, launched

from .gate import Gated, RecordingSimulator, gated
from .memory_gates import DECISION, ON, QUESTION, ask, remembering

pytestmark = pytest.mark.slow

ATTACKER = "attacker.example"
MESSAGES = {"model": "claude-opus-5-5", "max_tokens": 50, "messages": [{"role": "user", "content": QUESTION}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
KEY = {"x-api-key": "attackers", "anthropic-version": "2023-06-01"}
GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent?key=attackers"
PROBE = {"content-type": "application/json", **KEY}
DIRECT = {"anthropic-dangerous-direct-browser-access": "true", **PROBE}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched(ATTACKER) as running:
        yield running


@contextmanager
def site() -> Iterator[str]:
    """A server of somebody else's empty page on this machine; its port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<!doctype html><title>A page</title><p>Nothing to see."
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield str(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetched(visit: Visit, url: str, **options: Any) -> dict[str, Any]:
    """What a page gets for a fetch: status and text as far as it may see them, or that it failed."""
    script = (
        f"fetch({json.dumps(url)}, {json.dumps(options)})"
        ".then(async r => ({status: r.status, kind: r.type, text: await r.text(),"
        " call: r.headers.get('x-holdfast-call')}), e => ({failed: e.name}))"
    )
    found = visit.run(script)
    assert isinstance(found, dict)
    return found


def post(body: Any, headers: dict[str, str], **options: Any) -> dict[str, Any]:
    return {"method": "POST", "headers": headers, "body": json.dumps(body), **options}


def nothing_leaked(gate: Gated, simulator: RecordingSimulator, attempts: int) -> None:
    """The provider was not asked, and the same question of a program is answered with what the user knows."""
    assert len(gate.refused) >= attempts
    assert {(each.status, each.reason) for each in gate.refused} <= {(403, "origin"), (403, "host")}
    assert simulator.bodies == []
    ask(gate, QUESTION)
    assert DECISION.encode() in simulator.bodies[-1]


@pytest.mark.parametrize("host", ["127.0.0.1", ATTACKER])
def test_a_page_of_another_site(browser: Browser, tmp_path: Path, host: str) -> None:
    with remembering(tmp_path) as (gate, simulator), site() as port, browser.open(f"http://{host}:{port}/") as visit:
        direct = fetched(visit, f"{gate.address}/v1/messages", **post(MESSAGES, DIRECT))
        assert direct == {"failed": "TypeError"}  # not even asked for, after the preflight
        simple = post(CONTENTS, {"content-type": "text/plain"}, mode="no-cors")
        opaque = fetched(visit, gate.address + GEMINI, **simple)
        assert (opaque["status"], opaque["kind"], opaque["text"]) == (0, "opaque", "")
        beacon = f"navigator.sendBeacon({json.dumps(gate.address + GEMINI)}, {json.dumps(json.dumps(CONTENTS))})"
        assert visit.run(beacon)
        form = f"""new Promise(done => {{
            const form = document.createElement('form'), frame = document.createElement('iframe');
            frame.name = form.target = 'frame';
            frame.onload = () => {{ if (form.parentNode) done(true) }};
            document.body.append(frame, form);
            form.method = 'POST'; form.enctype = 'text/plain'; form.action = {json.dumps(gate.address + GEMINI)};
            form.submit() }})"""
        assert visit.run(form)
        assert fetched(visit, f"{gate.address}/healthz") == {"failed": "TypeError"}
        assert fetched(visit, f"{gate.address}/v1/models", mode="no-cors")["text"] == ""
        nothing_leaked(gate, simulator, 6)


def test_a_page_whose_name_points_here(browser: Browser, tmp_path: Path) -> None:
    """DNS rebinding: for the browser, page and gateway are of one origin."""
    with remembering(tmp_path) as (gate, simulator):
        port = gate.address.rpartition(":")[2]
        with browser.open(f"http://{ATTACKER}:{port}/healthz") as visit:
            assert visit.run("location.origin") == f"http://{ATTACKER}:{port}"
            for path, body, headers in (
                ("/v1/messages", MESSAGES, PROBE),
                (GEMINI, CONTENTS, {"content-type": "application/json"}),
            ):
                found = fetched(visit, path, **post(body, headers))
                assert (found["status"], found["kind"]) == (403, "basic")
                assert "gateway.hosts" in found["text"]
            bearer = {"authorization": f"Bearer {gate.token}"}
            assert fetched(visit, "/analytics/sessions", headers=bearer)["status"] == 403
            nothing_leaked(gate, simulator, 4)


def test_a_page_without_an_origin(browser: Browser, tmp_path: Path) -> None:
    """A file says `null`."""
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>A file</title>", "utf-8")
    with remembering(tmp_path) as (gate, simulator), browser.open(page.as_uri()) as visit:
        assert fetched(visit, f"{gate.address}/v1/messages", **post(MESSAGES, DIRECT)) == {"failed": "TypeError"}
        fetched(visit, gate.address + GEMINI, **post(CONTENTS, {"content-type": "text/plain"}, mode="no-cors"))
        nothing_leaked(gate, simulator, 2)


def test_an_app_of_a_listed_origin_works(browser: Browser, tmp_path: Path) -> None:
    """Streams and errors too; but it gets what it is given of the user's memory only if its tenant is named."""
    with site() as port:
        origin = f"http://127.0.0.1:{port}"
        with remembering(tmp_path, gateway__origins=[origin]) as (gate, simulator), browser.open(origin) as visit:
            for streamed in (False, True):
                found = fetched(visit, f"{gate.address}/v1/messages", **post(MESSAGES | {"stream": streamed}, DIRECT))
                assert (found["status"], found["kind"]) == (200, "cors")
                assert found["call"]
                assert ("message_stop" in found["text"]) is streamed
            assert fetched(visit, f"{gate.address}/nowhere", **post({}, DIRECT))["status"] == 404
            assert len(simulator.bodies) == 2
            assert all(DECISION.encode() not in each for each in simulator.bodies)
            assert fetched(visit, f"{gate.address}/healthz") == {"failed": "TypeError"}
            tenant = gate.gateway.identities.tenant(KEY, "")
        simulator = RecordingSimulator()
        named = {**ON, "gateway__origins": [origin], "memory__inject_tenants": [tenant]}
        with simulating(simulator) as upstream, gated(tmp_path, upstream, **named) as gate:
            with browser.open(origin) as visit:
                fetched(visit, f"{gate.address}/v1/messages", **post(MESSAGES, DIRECT))
                fetched(visit, f"{gate.address}/v1/messages", **post(MESSAGES, DIRECT | {"x-api-key": "others"}))
            given, withheld = simulator.bodies
            assert (DECISION.encode() in given, DECISION.encode() in withheld) == (True, False)


def test_our_own_pages_open(browser: Browser, tmp_path: Path) -> None:
    with remembering(tmp_path) as (gate, _), browser.open(gate.address + "/") as visit:
        assert "keeps prompts byte-stable" in visit.run("document.body.innerText")
        assert fetched(visit, "/healthz")["status"] == 200
