"""A server on standard input and output without any library, so that it starts at once and can misbehave on demand.

`python plain.py [OPTION…] [--log FILE] [NAME…]`: the names are tools it has from the beginning besides its own, the
options are its faults. What it hears besides requests goes to FILE, a line each.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
OWN = [
    "echo", "environment", "fail", "image", "large", "mixed", "structured", "wait", "crash", "leave_child", "garbage",
    "refuse", "ask_roots", "ask_sampling", "ask_elicitation", "add", "remove", "change", "half", "close_output",
]  # fmt: skip
tools: dict[str, dict[str, object]] = {}
lock = threading.Lock()
asked: dict[str, object] = {}
options = {argument for argument in sys.argv[1:] if argument.startswith("--")}
log = sys.argv[sys.argv.index("--log") + 1] if "--log" in options else os.devnull


def define(name: str, description: str = "") -> None:
    tools[name] = {
        "name": name,
        "description": description or f"Does {name}.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": name in ("echo", "wait")},
    }


def send(message: dict[str, object]) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def note(text: str) -> None:
    with lock, Path(log).open("a") as file:
        file.write(text + "\n")


def text(*parts: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": part} for part in parts]}


def ask(number: object, method: str, params: dict[str, object]) -> None:
    asked[f"ask-{number}"] = number
    send({"id": f"ask-{number}", "method": method, "params": params})


def call(number: object, name: str, given: dict[str, object]) -> dict[str, object] | None:
    said = str(given.get("text", ""))
    if name == "echo":
        return text(said)
    if name == "environment":
        return text(json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd()), "env": dict(os.environ)}))
    if name == "fail":
        return {**text(said or "it went wrong"), "isError": True}
    if name == "image":
        return {"content": [{"type": "image", "data": PNG, "mimeType": "image/jpeg"}]}
    if name == "large":
        return text("x" * int(said))
    if name == "structured":
        return {"content": [], "structuredContent": {"b": 1, "a": [2]}}
    if name == "mixed":
        resource = {"uri": "file:///notes.txt", "text": "noted"}
        return {
            "content": [{"type": "text", "text": ""}, {"type": "resource", "resource": resource}, {"type": "video"}]
        }
    if name == "half":
        return text("\ud83d!")
    if name == "garbage":
        with lock:
            sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":[[[\n')
            sys.stdout.flush()
        return None
    if name == "wait":
        note("waiting")
        return None
    if name == "crash":
        sys.stderr.write("going down\nthe disk is full\n")
        sys.stderr.flush()
        os._exit(int(said or 3))
    if name == "leave_child":  # a child that holds our pipes open, then we are killed
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
        note(f"child {child.pid}")
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "close_output":
        os.close(1)
        time.sleep(30)
    if name.startswith("ask_"):
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        schema = {"type": "object", "properties": {}}
        methods = {
            "ask_roots": ("roots/list", {}),
            "ask_sampling": ("sampling/createMessage", {"messages": [message], "maxTokens": 1}),
            "ask_elicitation": ("elicitation/create", {"message": "who?", "requestedSchema": schema}),
        }
        ask(number, *methods[name])
        return None
    if name in ("add", "remove", "change"):
        if name == "remove":
            tools.pop(said, None)
        else:
            define(said, "Does something else." if name == "change" else "")
        send({"method": "notifications/tools/list_changed"})
        return text("done")
    return {**text(f"no tool {name}"), "isError": True}


def listed(params: dict[str, object]) -> dict[str, object]:
    """Two pages, if there are enough."""
    every = list(tools.values())
    if "--bad-tools" in options:
        every = [
            {"name": "good", "inputSchema": {"properties": {}, "required": None}},
            {"name": "no schema"},
            {"name": "list", "inputSchema": {"type": "array"}},
            {"name": "nonsense", "inputSchema": {"type": "object", "properties": {"a": {"type": 7}}}},
            {"name": "", "inputSchema": {"type": "object"}},
            "what",
            {"name": "good", "inputSchema": {"type": "object"}},
            {"name": "either", "inputSchema": {"type": "object", "anyOf": [{"required": ["a"]}]}, "annotations": 5},
        ]
    half = len(every) // 2
    if params.get("cursor") == "second":
        if "--slow-page" in options:
            return {"tools": every[half:], "nextCursor": "second"}
        return {"tools": every[half:]}
    return {"tools": every[:half], "nextCursor": "second"}


def answer(request: dict[str, object]) -> None:
    number, method = request["id"], request["method"]
    params = request.get("params") or {}
    assert isinstance(params, dict)
    if method == "initialize":
        note(json.dumps(params["capabilities"]))
        able: dict[str, object] = {} if "--no-tools" in options else {"tools": {"listChanged": True}}
        info = {"name": "plain", "version": "1"}
        version = params["protocolVersion"]
        send({"id": number, "result": {"protocolVersion": version, "capabilities": able, "serverInfo": info}})
    elif method == "ping":
        send({"id": number, "result": {}})
    elif method == "tools/list" and "--no-tools" not in options:
        note("listed")
        send({"id": number, "result": listed(params)})
        if "--restless" in options:
            send({"method": "notifications/tools/list_changed"})
    elif method == "tools/call" and params["name"] == "refuse":
        send({"id": number, "error": {"code": -32602, "message": "not like this"}})
    elif method == "tools/call":
        result = call(number, str(params["name"]), params.get("arguments") or {})
        if result is not None:
            send({"id": number, "result": result})
    else:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    if "--slow" in options:
        time.sleep(1.5)
    if "--die" in options:
        sys.exit("no licence found")
    if "--stubborn" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for name in (*OWN, *(argument for argument in sys.argv[1:] if not argument.startswith("--") and argument != log)):
        define(name)
    if "--noise" in options:
        sys.stdout.write("Server is starting up...\n")
        send({"method": "notifications/tools/list_changed"})
    for line in sys.stdin:
        message = json.loads(line)
        if "--hang" in options:
            time.sleep(60)
        if "method" in message and "id" in message:
            answer(message)
        elif "method" in message:
            note(f"{message['method']} {json.dumps(message.get('params'))}")
        elif message.get("id") in asked:  # what the client answered to a question of ours
            send(
                {"id": asked.pop(message["id"]), "result": text(json.dumps(message.get("result") or message["error"]))}
            )
    if "--stubborn" in options:
        time.sleep(60)


main()
