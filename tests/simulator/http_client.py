"""A client for a simulator that is served: whole requests, and bare sockets for what no client library shows."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any, NamedTuple

ANTHROPIC = {"x-api-key": "sk-ant-dummy", "anthropic-version": "2023-06-01"}
OPENAI = {"authorization": "Bearer sk-dummy"}
GEMINI = {"x-goog-api-key": "dummy"}
LONG = "The loader reads every record of the file and checks each field. " * 400


def message(words: str = "Read the file.", **members: Any) -> dict[str, Any]:
    body = {"model": "claude-opus-4-6", "max_tokens": 100, "messages": [{"role": "user", "content": words}]}
    return body | members


def marked(**members: Any) -> dict[str, Any]:
    """A request that writes an entry."""
    system = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    return message(system=system, **members)


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Cut(NamedTuple):
    """What came over a bare socket, and whether the connection was reset."""

    data: bytes
    reset: bool


class Client:
    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        self.host, self.port = host, int(port)

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        try:
            raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, raw, headers or {})
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Response(response.status, headers, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return self.send("GET", path).json

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Response:
        return self.send("POST", path, body, ANTHROPIC if headers is None else headers)

    def fault(self, kind: str, **members: Any) -> None:
        response = self.post("/_sim/faults", {"kind": kind} | members)
        assert response.status == 201, response.body

    def connect(self, body: dict[str, Any], path: str = "/v1/messages") -> socket.socket:
        """A request on a bare socket, sent and not yet answered."""
        raw = json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", f"host: {self.host}:{self.port}", f"content-length: {len(raw)}"]
        lines += [f"{name}: {value}" for name, value in ANTHROPIC.items()]
        connection = socket.create_connection((self.host, self.port), timeout=20)
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
        return connection

    def raw(self, body: dict[str, Any]) -> Cut:
        """Everything that comes until the connection ends, one way or the other."""
        data = b""
        with self.connect(body) as connection:
            try:
                while piece := connection.recv(65_536):
                    data += piece
                    if data.endswith(b"0\r\n\r\n"):
                        return Cut(data, reset=False)
            except ConnectionResetError:
                return Cut(data, reset=True)
        return Cut(data, reset=False)
