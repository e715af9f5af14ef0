"""Which of the tools that results are compared with are installed here, and in which version.

python -m benchmarks.peers.versions
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.gateway_servers import ROOT, version_of
from scripts.install_peers import environment

PACKAGES = {
    "litellm": ("litellm",),
    "headroom": ("headroom_ai",),
    "langchain": ("langchain_anthropic", "deepagents"),
    "pydantic-ai": ("pydantic_ai_slim",),
}
CLIENTS = {"claude-code": ("claude", "@anthropic-ai/claude-code"), "opencode": ("opencode", "opencode-ai")}


def installed(root: Path = ROOT) -> dict[str, str]:
    """The tools by the name a replay has for them; what several packages do together has all their versions."""
    found: dict[str, str] = {}
    for name, packages in PACKAGES.items():
        place = environment(name, root)
        if place is not None:
            named = [version_of(place, package) for package in packages]
            rest = (f"{package.replace('_', '-')} {version}" for package, version in zip(packages, named, strict=True))
            found[name] = named[0] if len(named) == 1 else ", ".join(rest)
    for name, (folder, package) in CLIENTS.items():
        told = root / ".clients" / folder / "node_modules" / package / "package.json"
        if told.is_file():
            found[name] = str(json.loads(told.read_text("utf-8"))["version"])
    return found


if __name__ == "__main__":
    for name, version in installed().items():
        print(f"{name} {version}")
