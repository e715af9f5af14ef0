"""Write docs/cache-rules.md: the numbered rules of every cache, as the modules state them.

python scripts/make_cache_rules.py > docs/cache-rules.md
"""

from __future__ import annotations

import importlib
import re

MODULES = {
    "anthropic": "Anthropic",
    "openai_breakpoints": "OpenAI, GPT-5.6 and later",
    "openai": "OpenAI, GPT-5.5 and earlier",
    "gemini": "Gemini",
    "gemini_contents": "Gemini's cached contents",
    "deepseek": "DeepSeek",
    "vllm": "vLLM",
    "llama": "llama.cpp",
    "noise": "Noise",
}
HEAD = """# The cache rules by number

What the reasons in `/_sim/requests` and the tests refer to. Made from `src/holdfast/caches` by `make docs`; the letters
have nothing to do with those in [conformance.md](conformance.md).
"""


def rules(text: str) -> list[tuple[str, str]]:
    """The numbered rules of a docstring, each on one line."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        match = re.match(r"(?:- )?([A-Z]\d+)\s+(.*)", line)
        if match:
            found.append((match[1], match[2].strip()))
        elif found and re.match(r"\s{2,}\S", line):
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif found and line.strip():
            break
    return found


def page() -> str:
    parts = [HEAD]
    for name, title in MODULES.items():
        listed = rules(importlib.import_module(f"holdfast.caches.{name}").__doc__ or "")
        rows = [f"| {number} | {text} |" for number, text in listed]
        parts.append("\n".join([f"## {title}", "", "| rule | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
