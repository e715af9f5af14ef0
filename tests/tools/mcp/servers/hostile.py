"""A server that means ill: `python hostile.py HOW [FILE]`. What is to be counted goes to FILE, a line each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

how = sys.argv[1]
log = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("/dev/null")
lists = 0


def send(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(text: object) -> None:
    with log.open("a") as file:
        file.write(f"{text}\n")


def tool(name: str, schema: dict[str, object] | None = None, **more: object) -> dict[str, object]:
    return {"name": name, "inputSchema": schema or {"type": "object"}, **more}


def listed(cursor: object) -> dict[str, object]:
    if how == "doubling":  # every reference stands for two
        parts: dict[str, object] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
        parts["a60"] = {}
        return {"tools": [tool("good"), tool("bad", {"type": "object", "$ref": "#/$defs/a0", "$defs": parts})]}
    if how == "bad":
        return {"tools": [tool(f"t{number}", {"type": "array"}) for number in range(5_000)]}
    if how == "large":
        page = int(str(cursor or 0))
        return {"tools": [tool(f"t{page}", description="d" * 9_000, title="t" * 9_000)], "nextCursor": str(page + 1)}
    if how == "new":
        return {"tools": [tool(f"t{lists}")]}
    return {"tools": [tool("echo")]}


def answer(number: object, method: str, params: dict[str, object]) -> None:
    global lists
    if method == "initialize":
        able = {"tools": {"listChanged": True}}
        info = {"name": "hostile", "version": "1"}
        version = params["protocolVersion"]
        send({"id": number, "result": {"protocolVersion": version, "capabilities": able, "serverInfo": info}})
    elif method == "tools/list":
        lists += 1
        note("listed")
        if how == "sulking" and lists > 1:
            send({"id": number, "error": {"code": -32000, "message": f"no {lists}"}})
        else:
            send({"id": number, "result": listed(params.get("cursor"))})
        if how in ("new", "sulking"):
            send({"method": "notifications/tools/list_changed"})
        if how == "asking":
            for asked in range(20_000):
                send({"id": f"q{asked}", "method": "roots/list"})
            note("asked")
        if how in ("asking", "deaf"):
            time.sleep(60)
    else:
        send({"id": number, "result": {}})


if how == "parent":  # of a child that does not want to end
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    child.stdout.readline()
    note(child.pid)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("here")
    time.sleep(60)
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        answer(message["id"], message["method"], message.get("params") or {})
