"""The credential of a request, wherever its client puts it. It is looked at, never kept."""

from __future__ import annotations

from urllib.parse import unquote_plus

from .values import Headers

_HEADERS = ("x-api-key", "x-goog-api-key")
_QUERY = ("key", "access_token")


def credentials_of(headers: Headers, query: str) -> list[str]:
    """All different ones: Authorization without its scheme, x-api-key, x-goog-api-key, `key=` in the query.

    Who sends two is told apart by both: one of them may be a filler that everybody sends."""
    found: dict[str, None] = {}
    if "authorization" in headers:
        words = headers["authorization"].split(None, 1)
        if len(words) == 2:
            found[words[1].strip()] = None
        elif words and words[0].lower() not in ("bearer", "basic"):
            found[words[0]] = None
    for name in _HEADERS:
        if name in headers and (value := headers[name].strip()):
            found[value] = None
    if query:
        found.update(dict.fromkeys(_in_query(query)))
    return list(found)


def _in_query(query: str) -> list[str]:
    values = []
    for part in query.removeprefix("?").split("&"):
        name, _, value = part.partition("=")
        if value and unquote_plus(name).lower() in _QUERY and (value := unquote_plus(value).strip()):
            values.append(value)
    return values
