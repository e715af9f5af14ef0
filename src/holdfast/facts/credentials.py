"""Credentials: which environment variables name one, and which strings are shaped like one.

The one list, as of 2026-11-18, of the key forms that services document or hand out. Used wherever a key must not be
shown, sent or stored. What has no known form and no telling name (hashes, UUIDs, base64) is not a key. Every pattern is
a bounded or a single unnested repetition: linear on any input.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase

MASK = "[key masked by Holdfast]"
"""Replaces a masked key."""

# fmt: off
_SURE = (
    "sk-ant-", "sk-proj-", "sk-or-v1-", "sk-svcacct-", "sk-admin-", "sk-lf-", "sk_live_", "sk_test_", "rk_live_",
    "rk_test_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-",
    "nvapi-", "pypi-AgE", "GOCSPX-", "AGE-SECRET-KEY-1",
)
"""Nothing but a key begins so."""
_SPACED = ("sk-", "pk-", "rk-", "csk-", "xai-", "pplx-", "tvly-", "glptt-", "gldt-", "glrt-")
"""Names in kebab case may begin so: what follows has to look random."""
_SOLID = (
    "ghp_", "gho_", "ghr_", "ghs_", "ghu_", "hf_", "gsk_", "npm_", "r8_", "tgp_v1_", "fw_", "dop_v1_", "shpat_",
    "lin_api_", "sbp_", "ntn_", "figd_", "sntrys_", "whsec_", "pk_live_", "pk_test_", "dapi",
)
"""Letters and digits follow without anything between them."""
_OTHERS = ("AKIA", "ASIA", "AIza", "AQ.", "ya29.", "hvs.", "SG.", "ABSK", "bedrock-api-key-", "eyJ")
BEGINNINGS = (*_SURE, *_SPACED, *_SOLID, *_OTHERS)
"""How keys of known services begin."""
# fmt: on


def _one_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words))


_KNOWN = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))(?:"
    rf"(?P<sure>{_one_of(_SURE)})[-_A-Za-z0-9]{{8,512}}"
    rf"|(?P<spaced>{_one_of(_SPACED)})[-_A-Za-z0-9]{{16,512}}"
    rf"|(?P<solid>{_one_of(_SOLID)})[A-Za-z0-9]{{20,512}}"
    r"|(?P<amazon>AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])|(?P<bedrock>ABSK|bedrock-api-key-)[A-Za-z0-9+/]{32,2048}=*"
    r"|(?P<google>AIza)[-_A-Za-z0-9]{30,80}|(?P<dotted>AQ\.|ya29\.|hvs\.|SG\.)[-_A-Za-z0-9.]{24,4096}"
    r"|(?P<jwt>eyJ)[-_A-Za-z0-9]{8,4096}\.[-_A-Za-z0-9]{8,4096}\.[-_A-Za-z0-9]{8,4096})"
)
_REST = re.compile(r"(?:[A-Za-z0-9][-_A-Za-z0-9.]{0,4096})?")
"""The rest of a key that is longer than its pattern allows: after the mask it could look like the start of another."""
_BEGUN = re.compile(_one_of(BEGINNINGS))
_KEY_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/.~"
_RUN = re.compile(r"[-_A-Za-z0-9+/.~]{12,}={0,2}")
"""Characters that a key can consist of. All other patterns are tried on such runs only, which are rare in text."""
_LONG = 8_192
"""Characters of a run from which on it is data; only its beginning can be a key's."""

_NAMED = re.compile(
    r"(?:(?P<name>(?i:api[_-]?key|apikey|(?:secret|access|private)[_-]?key|client[_-]?secret|secret|passw(?:or)?d|passphrase"
    r"|(?:auth|access|refresh|oauth|bot|session)[_-]?token|(?:x-)?goog-api-key|credentials?)|[A-Z0-9]_(?:TOKEN|KEY|SECRET))"
    r"(?:\\?[\"'`]){0,2}[ \t]{0,8}(?::|=>?|:=)[ \t]{0,8}(?:\\?[\"'`]){0,2}(?:(?i:bearer|basic)[ \t]{1,4})?"
    r"|(?<![A-Za-z])(?i:bearer)[ \t]{1,4}|(?<![0-9A-Za-z])[0-9]{8,10}:(?=AA))\Z"
)
_LEADS = tuple(":=>rRcC")
"""What a named key comes after, but for blanks and quotes: a sign, or the end of `bearer` or `basic`."""
_BEFORE = 64
_WORD = re.compile(r"[A-Za-z0-9_-]{0,64}\Z")
_CODE = re.compile(r"[/~.].*|[A-Za-z_]\w*(?:[./]\w+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|.*(?i:example|your|xxxx|\.\.\.).*")
"""Placeholders for keys in explanations and programs: a path, a variable, a gap."""
_PEM = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(r"[A-Za-z0-9+/]{24}")
_PEM_LINES = re.compile(r"(?:\s|\\[nr]|[A-Za-z0-9+/=]){0,32768}")
_PEM_MOST = 32_768

_PROVIDERS = (
    "ANTHROPIC|CLAUDE|OPENAI|CODEX|AZURE|GEMINI|GOOGLE|VERTEX(?:AI)?|OPENROUTER|AWS|BEDROCK|DEEPSEEK|MISTRAL|CODESTRAL|GROQ"
    "|XAI|GROK|COHERE|TOGETHER(?:AI|_AI)?|FIREWORKS(?:AI)?|HUGGING_?FACE(?:HUB)?|DASHSCOPE|QWEN|BAILIAN|MODELSCOPE"
    "|MOONSHOT(?:AI)?|KIMI|ZHIPU(?:AI)?|ZAI|Z_AI|BIGMODEL|MINIMAX|PERPLEXITY(?:AI)?|PPLX|CEREBRAS|SAMBANOVA|NVIDIA"
    "|REPLICATE|DEEPINFRA|ANYSCALE|NOVITA|HYPERBOLIC|SILICONFLOW|VOLC(?:ENGINE)?|DOUBAO|QIANFAN|HUNYUAN|STEPFUN|AI21"
    "|ALEPH_ALPHA|WATSONX|VOYAGE|JINA|OLLAMA|LITELLM|PORTKEY|HELICONE|REQUESTY|AI_GATEWAY|OPENCODE|CHUTES|NEBIUS|BASETEN"
    "|FRIENDLI|UPSTAGE|REKA|WRITER|LLAMA|LLM|DATABRICKS_API"
)
_AT_START = "HF|CO|ARK|YI|NIM|GLM|LAMBDA"
_SECRET = r"(?:KEYS?|TOKEN|SECRETS?|CREDENTIALS?|PASSWORD|CUSTOM_HEADERS)(?:_(?:ID|FILE|JSON|BEDROCK|[0-9]+))?"
_VARIABLE = re.compile(rf"(?i)(?:(?:.*_)?(?:{_PROVIDERS})|(?:{_AT_START}))_(?:.*_)?(?:API)?{_SECRET}")
_OURS = re.compile(r"(?i)HOLDFAST_.*(?:KEY|TOKEN|SECRET|PASSW|AUTH|CRED)")
_WITH_PASSWORD = re.compile(r"\w+://[^/\s]*@")
_LEAST_VALUE = 8
"""Characters of a variable's value from which on it is looked for in texts: `true` is no key."""


def names_key(name: str) -> bool:
    """Whether an environment variable of this name holds a key of a model provider, or one of Holdfast's own."""
    return bool(_VARIABLE.fullmatch(name) or _OURS.match(name))


def hidden(
    variables: Iterable[tuple[str, str]], hide: Collection[str] = (), allow: Collection[str] = ()
) -> dict[str, str]:
    """The variables that hold keys of providers, by name or by value, and those that `hide` names; not those that
    `allow` names. Both take names and patterns such as `CORP_*`."""
    keys = {}
    for name, value in variables:
        if any(fnmatchcase(name, pattern) for pattern in allow):
            continue
        ours = name.startswith("HOLDFAST_") and _WITH_PASSWORD.match(value)
        if names_key(name) or ours or _is_providers(value) or any(fnmatchcase(name, pattern) for pattern in hide):
            keys[name] = value
    return keys


def _is_providers(value: str) -> bool:
    """Whether a value is shaped like a model provider's key, whatever its variable is called. Those of other services
    are left: commands need them to push and to deploy."""
    match = _KNOWN.match(value)
    return (
        match is not None
        and _is_key(match)
        and (match["sure"] or match["spaced"] or "").startswith(("sk-", "csk-", "xai-", "pplx-"))
    )


def holds_key(text: str) -> bool:
    """Whether something in the text is shaped like a key."""
    return next(_found(text), None) is not None


def masked(text: str, values: Collection[str] = ()) -> str:
    """The text with a mask in place of every key in it, and of these values. All else stays as it is; a text without
    keys is returned itself. Masking twice changes nothing more."""
    places = key_spans(text, values)
    if not places:
        return text
    pieces: list[str] = []
    at = 0
    for start, end in places:
        pieces += (text[at:start], MASK)
        at = end
    return "".join((*pieces, text[at:]))


def key_spans(text: str, values: Collection[str] = ()) -> list[tuple[int, int]]:
    """Where the keys of a text begin and end, in order, none within another. What tells a key's kind is no part."""
    places = sorted((*_found(text), *_given(text, values)))
    merged: list[tuple[int, int]] = []
    for start, end in places:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def open_end(text: str) -> int:
    """Where an unfinished text ends in what may become a key with the next characters; its length if nowhere."""
    start = len(text) - len(text[-_LONG:]) + len(text[-_LONG:].rstrip(_KEY_CHARACTERS))
    run = text[start:]
    if not run or len(text) - start >= _LONG:
        return len(text)
    named = _NAMED.search(text, max(0, start - _BEFORE), start)
    begun = any(word.startswith(run) or run.startswith(word) for word in BEGINNINGS)
    return start if named or begun else len(text)


def _found(text: str) -> Iterator[tuple[int, int]]:
    yield from _private_keys(text)
    for run in _RUN.finditer(text):
        start, end = run.span()
        is_name = False
        if _BEGUN.search(text, start, min(end, start + _LONG)):
            for key in _KNOWN.finditer(text, start, min(end, start + _LONG)):
                if _is_key(key):
                    is_name = True
                    yield key.end(key.lastgroup or 0), _REST.match(text, key.end()).end()  # type: ignore[union-attr]
        if not is_name and end - start < _LONG and _is_named_key(text, start, end):
            yield start, end - (text[end - 1] == ".")


def _is_key(match: re.Match[str]) -> bool:
    """Words in kebab or snake case begin like keys; what follows the prefix of a key is random."""
    body = match.string[match.end(match.lastgroup or 0) : match.end()]
    if match["spaced"]:
        return _digits(body) >= 3 and any(len(part) >= 8 and is_mixed(part) for part in re.split("[-_]", body))
    if match["solid"] or match["dotted"]:
        return is_mixed(body)
    return len(set(body) - set("-_")) > 2  # sk-ant-xxxxxxxx explains something


def _is_named_key(text: str, start: int, end: int) -> bool:
    lead = text[max(0, start - 12) : start].rstrip(" \t\"'`\\")
    if lead[-1:] not in _LEADS:
        return False
    named = _NAMED.search(text, max(0, start - _BEFORE), start)
    if named is None or text[end : end + 1] in ("(", "["):
        return False
    value = text[start:end].rstrip("=.")
    if _CODE.fullmatch(value):
        return False
    if named["name"] is not None:
        word = _WORD.search(text, max(0, named.start() - _BEFORE), named.end("name"))
        if word is not None and _VARIABLE.fullmatch(word[0].replace("-", "_")):
            return is_mixed(value)
        if named["name"][:1].isupper() and named["name"].endswith("_KEY"):  # CACHE_KEY, PUBLIC_KEY: anything at all
            return False
    mixed_case = value.lower() != value != value.upper()
    return is_mixed(value) and len(value) >= 16 and (_digits(value) >= 3 or (mixed_case and len(value) >= 32))


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """What stands between the first and the last line of a private key; where it breaks off, as far as it goes."""
    at = text.find("-----BEGIN ")
    while at >= 0:
        begin = _PEM.match(text, at)
        at += 1
        if begin is not None:
            start = begin.end()
            end = text.find("-----END ", start, start + _PEM_MOST)
            if end < 0:
                end = _PEM_LINES.match(text, start).end()  # type: ignore[union-attr]
            if _PEM_LINE.search(text, start, end):
                yield start, end
                at = end
        at = text.find("-----BEGIN ", at)


def _given(text: str, values: Collection[str]) -> Iterator[tuple[int, int]]:
    for value in values:
        if len(value) < _LEAST_VALUE:
            continue
        at = text.find(value)
        while at >= 0:
            yield at, at + len(value)
            at = text.find(value, at + len(value))


def is_mixed(run: str) -> bool:
    """Letters and digits: words seldom are, and nearly every key is."""
    return any(char.isdigit() for char in run) and any(char.isalpha() for char in run)


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))
