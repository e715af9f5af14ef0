"""Make request fixtures from recordings of real clients: the shape stays, the content goes.

    python scripts/make_shapes.py SOURCE_DIR tests/fixtures/shapes

SOURCE_DIR holds `*.jsonl` files, one request per line: `client`, `run`, `n`, `at`, `method`, `path`,
`headers` (list of pairs) and `body` (the JSON text as sent, or null). The output has the same form. Bodies
are rewritten string by string in the raw text and never re-serialised, so key order, spacing, numbers and
escapes stay as the client sent them. What is content becomes filler that is a function of the content alone:
equal texts stay equal and different texts stay different, so two requests share a prefix afterwards as far
as they did before.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CAP = 200
SHORTEST = 6
MOST_SPECIALS = 12

# Outside of content these carry the request's structure; their values stay when they look like a name.
STRUCTURAL = frozenset(
    {
        "type",
        "role",
        "model",
        "name",
        "effort",
        "status",
        "ttl",
        "enum",
        "required",
        "include",
        "const",
        "format",
        "media_type",
        "mimeType",
        "mime_type",
        "detail",
        "service_tier",
        "stop_reason",
        "object",
        "truncation",
        "prompt_cache_retention",
        "tool_name",
        "mode",
    }
)
# Objects and texts below these keys are written by a model or a tool: nothing in them is structure.
CONTENT = frozenset({"input", "args", "arguments", "response"})
# Parameters with a closed list of values. Where a recording lost it, the first stands in.
PARAMETERS = {
    "tool_choice": ("auto", "none", "required", "any"),
    "keep": ("all",),
    "verbosity": ("low", "medium", "high"),
    "reasoning_effort": ("low", "none", "minimal", "medium", "high", "xhigh"),
    "reasoning.summary": ("auto", "concise", "detailed"),
}
SCHEMAS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#")
CREDENTIALS = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "proxy-authorization"})
HEADER_NAMES = frozenset(
    {
        "content-type",
        "user-agent",
        "session-id",
        "session_id",
        "thread-id",
        "originator",
        "x-app",
        "x-goog-api-client",
        "x-client-request-id",
        "x-parent-session-id",
        "upgrade",
        "http-referer",
        "x-title",
    }
)
HEADER_PREFIXES = (
    "accept",
    "anthropic-",
    "openai-",
    "sec-",
    "x-claude-code-",
    "x-codex-",
    "x-session-",
    "x-stainless-",
)

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|\s+|[^\s{}\[\]:,"]+', re.S)
NAME = re.compile(r"[A-Za-z0-9_.+-][A-Za-z0-9_.:/+-]{0,79}")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{12}")
OPAQUE_ID = re.compile(r"([A-Za-z]+_)?(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{12,}(:\d+)?")
DATA_URL = re.compile(r"data:[\w/+.-]+;base64,")
ATTRIBUTION = "x-anthropic-billing-header:"
SPECIAL = re.compile(r"[\x00-\x1f\"\\]|[^\x00-\x7f]|  +")
LETTERS = "aeiou", "bdfgklmnprstvz"


def _bytes(seed: str) -> Iterator[int]:
    counter = 0
    while True:
        yield from hashlib.sha256(f"{counter}:{seed}".encode("utf-8", "surrogatepass")).digest()
        counter += 1


def _escaped(char: str, raw: str) -> str:
    """How `raw` writes a character: as itself or as an escape, with its own letter case."""
    if char in '"\\':
        return "\\" + char
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}.get(char)
    if short and short in raw:
        return short
    lower = json.dumps(char)[1:-1]
    if char < " " or "\ud800" <= char <= "\udfff":
        return lower
    if char in raw:
        return char
    return lower if lower in raw else lower.upper().replace("\\U", "\\u")


class Disguise:
    """Replaces texts and ids by stand-ins that are as equal and as different as the originals."""

    def __init__(self, cap: int = CAP) -> None:
        self._cap = cap
        self._texts: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._taken: set[str] = set()

    def text(self, text: str) -> str:
        """Filler of the text's length (at most the cap) with its line breaks, quotes and foreign letters."""
        if text not in self._texts:
            self._texts[text] = self._unused(text, self._filler)
        return self._texts[text]

    def id(self, value: str) -> str:
        """An id of the same form: the prefix, the length and the kind of each character stay."""
        if UUID.search(value):
            return UUID.sub(lambda match: self._id_whole(match.group()), value)
        return self._id_whole(value)

    def _id_whole(self, value: str) -> str:
        if value not in self._ids:
            self._ids[value] = self._unused(value, _same_form)
        return self._ids[value]

    def _unused(self, original: str, make: Any) -> str:
        salt = 0
        while (made := make(original, f"{salt}/{original}")) in self._taken or made == original:
            salt += 1
            if salt > 10_000:
                raise SystemExit(f"no unused stand-in of {len(original)} characters is left; lower the variety of ids")
        self._taken.add(made)
        return str(made)

    def _filler(self, text: str, seed: str) -> str:
        specials = _sampled([(m.start() / len(text), m.group()) for m in SPECIAL.finditer(text)])
        length = max(SHORTEST, min(len(text), self._cap) - sum(len(s) for _, s in specials))
        gap = " " if re.search(r"\s", text) else ""
        plain = _words(seed, length, gap)
        for place, special in reversed(specials):
            at = round(place * length)
            plain = plain[:at] + _stand_in(special) + plain[at:]
        return plain


def _words(seed: str, length: int, gap: str) -> str:
    stream = _bytes(seed)
    made = ""
    while len(made) < length:
        for _ in range(2 + next(stream) % 2):
            made += LETTERS[1][next(stream) % 14] + LETTERS[0][next(stream) % 5]
        made += gap
    last = made[length - 1]
    return made[: length - 1] + (last if last != " " else "n")


def _sampled(specials: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """At most twelve of them, every kind among them."""
    if len(specials) <= MOST_SPECIALS:
        return specials
    first = {_stand_in(special): (place, special) for place, special in reversed(specials)}
    step = len(specials) / MOST_SPECIALS
    spread = [specials[int(i * step)] for i in range(MOST_SPECIALS)]
    return sorted({*list(first.values())[:MOST_SPECIALS], *spread})


def _stand_in(special: str) -> str:
    if special[0] <= "\x7f" or "\ud800" <= special <= "\udfff":
        return special
    return "é" if special <= "\uffff" else "😀"


def _same_form(value: str, seed: str) -> str:
    stream = _bytes(seed)
    if (match := UUID.fullmatch(value)) is not None:
        digits = "".join("0123456789abcdef"[next(stream) % 16] for _ in range(32))
        version, variant = match.groups()
        return f"{digits[:8]}-{digits[8:12]}-{version}{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
    segments = re.split(r"([^A-Za-z0-9]+)", value)
    for at, segment in enumerate(segments):
        drawn = len(segment) > 2 and (any(map(str.isdigit, segment)) or at == len(segments) - 1)
        if drawn:
            hexadecimal = re.fullmatch(r"[0-9a-f]*", segment) is not None and not segment.isdigit()
            segments[at] = "".join(_same_kind(char, next(stream), hexadecimal) for char in segment)
    return "".join(segments)


def _same_kind(char: str, drawn: int, hexadecimal: bool) -> str:
    if hexadecimal:
        return "0123456789abcdef"[drawn % 16]
    if char.isdigit():
        return str(drawn % 10)
    letter = chr(ord("a") + drawn % 26)
    return letter.upper() if char.isupper() else letter


@dataclass
class _Frame:
    kind: str
    key: str
    content: bool
    expects_key: bool


class Rewriter:
    """Rewrites the strings of a JSON text in place, by their key and the part of the request they are in."""

    def __init__(self, disguise: Disguise) -> None:
        self._disguise = disguise

    def json(self, raw: str, *, content: bool = False) -> str:
        out: list[str] = []
        stack = [_Frame("", "", content, False)]
        key = ""
        for match in TOKEN.finditer(raw):
            token, top = match.group(), stack[-1]
            if token in ("{", "["):
                named = key if top.kind == "{" else top.key
                written = token == top.kind == "{" and key in CONTENT and top.key != "properties"
                inside = top.content or written
                stack.append(_Frame(token, named, inside, token == "{"))
            elif token in ("}", "]"):
                stack.pop()
            elif token == ",":
                top.expects_key = top.kind == "{"
            elif token[0] == '"' and top.expects_key:
                key, top.expects_key = json.loads(token), False
            elif token[0] == '"':
                path = (stack[-1].key, key) if top.kind == "{" else (top.key, top.key)
                token = self._value(token, path, top.content)
            out.append(token)
        return "".join(out)

    def _value(self, raw: str, path: tuple[str, str], content: bool) -> str:
        text: str = json.loads(raw, strict=False)
        parent, key = path
        if not text:
            return raw
        if text[0] in "{[" and _is_json(text):
            inner = self.json(text, content=content or key in CONTENT)
            ascii_only = json.dumps(text) == raw
            return json.dumps(inner, ensure_ascii=ascii_only)
        if not content:
            if key in STRUCTURAL and NAME.fullmatch(text):
                return raw
            if key == "$schema":
                return f'"{SCHEMAS[0] if len(text) > len(SCHEMAS[1]) else SCHEMAS[1]}"'
            legal = PARAMETERS.get(key) or PARAMETERS.get(f"{parent}.{key}")
            if legal:
                return raw if text in legal else f'"{legal[0]}"'
            if text.startswith(ATTRIBUTION):
                return json.dumps(self.attribution(text))
        return '"' + self._disguised(text, key, raw) + '"'

    def _disguised(self, text: str, key: str, raw: str) -> str:
        if re.search(r"(?:^|_|[a-z])[iI]d$|_key$", key) and not re.search(r"\s", text):
            return self._disguise.id(text)
        if UUID.fullmatch(text) or OPAQUE_ID.fullmatch(text):
            return self._disguise.id(text)
        start = match.group() if (match := DATA_URL.match(text)) else ""
        filler = self._disguise.text(text)
        return start + "".join(_escaped(char, raw) if SPECIAL.match(char) else char for char in filler)

    def attribution(self, text: str) -> str:
        """The attribution line keeps its form; the part that differs by conversation is replaced."""

        def neutral(match: re.Match[str]) -> str:
            return match[1] + self._disguise.id(match[2])

        return re.sub(r"((?:cc_version=[\d.]+\.|cch=))([0-9a-f]+)", neutral, text)

    def header(self, name: str, value: str) -> str | None:
        """The header's value as kept, or None for a header that is left out."""
        low = name.lower()
        if low in CREDENTIALS:
            return "dummy"
        if low == "sec-websocket-key":
            return base64.b64encode(hashlib.sha256(value.encode()).digest()[:16]).decode()
        if low not in HEADER_NAMES and not low.startswith(HEADER_PREFIXES):
            return None
        if value[:1] in "{[" and _is_json(value):
            return self._metadata(value)
        if UUID.search(value) or OPAQUE_ID.fullmatch(value):
            return self._disguise.id(value)
        return value

    def _metadata(self, value: str) -> str:
        def one(match: re.Match[str]) -> str:
            text = json.loads(match[2])
            if not text or (NAME.fullmatch(text) and not UUID.search(text)):
                return match.group()
            made = self._disguise.id(text) if UUID.search(text) else self._disguise.text(text)
            return match[1] + json.dumps(made)

        return re.sub(r'("[^"\\]*"\s*:\s*)("(?:[^"\\]|\\.)*")', one, value)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def rewrite(records: list[dict[str, Any]], rewriter: Rewriter) -> list[dict[str, Any]]:
    """The records in fixture form; times count from the first request of their run."""
    started: dict[str, float] = {}
    out = []
    for record in records:
        headers = [(name, rewriter.header(name, value)) for name, value in record["headers"]]
        out.append(
            {
                "client": record["client"],
                "run": record["run"],
                "n": record["n"],
                "at": round(record["at"] - started.setdefault(record["run"], record["at"]), 3),
                "method": record["method"],
                "path": re.sub(r"([?&]key=)[^&]*", r"\1dummy", record["path"]),
                "headers": [[name, value] for name, value in headers if value is not None],
                "body": rewriter.json(record["body"]) if record["body"] else None,
            }
        )
    return out


def without_repeats(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out runs that begin like a longer run of the client and go on with the same structure.

    The first requests must be equal apart from ids; in the later ones texts may differ too, as tools answer
    differently each time.
    """
    runs: dict[str, list[str]] = {}
    for record in records:
        retry = [value for name, value in record["headers"] if name.lower() == "x-stainless-retry-count"]
        sent = f"{record['method']} {record['path']} {retry} {record['body']}"
        masked = re.sub(r'((?:id|_key)\\?":\s*\\?")[^"\\]*', r"\1", sent)
        if record["run"] in runs:
            masked = re.sub(r'"(?:[^"\\]|\\.)*\s(?:[^"\\]|\\.)*"', "text", masked)
        runs.setdefault(record["run"], []).append(masked)
    kept: dict[str, list[str]] = {}
    for run, requests in sorted(runs.items(), key=lambda item: -len(item[1])):
        if not any(other[: len(requests)] == requests for other in kept.values()):
            kept[run] = requests
    return [record for record in records if record["run"] in kept]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make request fixtures from recordings of real clients.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--cap", type=int, default=CAP, help="longest filler in characters")
    args = parser.parse_args(argv)
    sources = sorted(args.source.glob("*.jsonl"))
    if not sources:
        parser.error(f"{args.source} holds no *.jsonl file; give the directory of the recordings")
    args.target.mkdir(parents=True, exist_ok=True)
    rewriter = Rewriter(Disguise(args.cap))
    total = 0
    for source in sources:
        lines = source.read_text(encoding="utf-8").splitlines()
        records = without_repeats(rewrite([json.loads(line) for line in lines if line], rewriter))
        text = "".join(json.dumps(record) + "\n" for record in records)
        (args.target / source.name).write_text(text, encoding="utf-8")
        total += len(text)
        print(f"{source.name}: {len(records)} of {len(lines)} requests, {len(text):,} bytes")
    print(f"{total:,} bytes in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
