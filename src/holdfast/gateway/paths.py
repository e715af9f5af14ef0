"""The path that a provider serves, however the base URL in front of it was spelled.

Clients append their own path to the address they are given and disagree on whether that ends with a version: Claude
Code appends `/v1/messages`, opencode `/messages`, Gemini's SDK `/v1beta/models/…`. So that one address serves them all,
a version that was doubled counts once, and one that is missing is added to the paths that providers are known to have.
Every other path stays as it came.
"""

from __future__ import annotations

import re

_versions = re.compile(r"(?:/+v1(?:beta|alpha)?(?=/|\Z))+").match
_version = re.compile(r"/(v1(?:beta|alpha)?)(?=/|\Z)").findall
_call = re.compile(r"/(?:messages|chat/completions|responses)(?=/|\Z)").match
_resource = re.compile(
    r"/(?:messages|chat/completions|responses|models|files|batches|completions|embeddings|images|audio|videos|"
    r"moderations|conversations|uploads|vector_stores|fine_tuning|containers|organizations|skills)(?=/|\Z)"
).match
_of_gemini = re.compile(r"/(?:models/[^/:]+:|(?:cachedContents|tunedModels|fileSearchStores)(?=/|\Z))").match
_AZURE = "api-version="  # whose paths name a deployment and no version


def provider_path(path: str, query: str, *, google: bool) -> str:
    """The path to route and to send. `google` says that the credential or the prefix is Gemini's: of what several
    providers have, its own is under /v1beta."""
    path = _without_extra_slash(path)
    if path.startswith("/api/"):
        return _openrouter(path)
    found = _versions(path)
    if found is None:
        return path if _AZURE in query else _with_version(path, google)
    rest = _without_extra_slash(path[found.end() :])
    if rest in ("", "/"):
        return "/"
    if rest.startswith("/api/"):  # what stands beside /v1: Claude Code's side calls, OpenRouter
        return _openrouter(rest)
    return "/v1" + rest if _call(rest) else f"/{_version(found[0])[-1]}{rest}"


def _without_extra_slash(path: str) -> str:
    """A provider's path without the slash too many at its beginning that the end of a base URL left."""
    if not path.startswith("//"):
        return path
    plain = "/" + path.lstrip("/")
    return path if (_versions(plain) or _resource(plain) or _of_gemini(plain)) is None else plain


def _with_version(path: str, google: bool) -> str:
    if _of_gemini(path):
        return "/v1beta" + path
    if _resource(path):
        return ("/v1beta" if google and not _call(path) else "/v1") + path
    return path


def _openrouter(path: str) -> str:
    """A path under /api: OpenRouter's calls have one version there; the rest is Anthropic's and has none."""
    rest = path[len("/api") :]
    found = _versions(rest)
    if found is not None:
        return "/api/v1" + rest[found.end() :]
    return "/api/v1" + rest if _call(rest) else path
