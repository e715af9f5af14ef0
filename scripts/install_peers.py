"""Install the tools that results are compared with, each into an environment of its own under `.peers`.

    python -m scripts.install_peers
    python -m scripts.install_peers litellm langchain

Versions are pinned here, those of tools that are tested as clients too in `install_clients`; an environment that is
there for those tests already is used as it is. A tool that cannot be installed is named with the reason and left out
of what needs it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scripts.install_clients import CLIENTS, Client, Failed, install

ROOT = Path(__file__).parents[1]

PEERS: dict[str, tuple[str, ...]] = {
    "litellm": ("litellm[proxy]==1.106.2",),
    "headroom": ("headroom-ai[proxy]==0.42.0",),
    "langchain": CLIENTS["deepagents"].packages,
    "pydantic-ai": (*CLIENTS["pydantic-ai"].packages, "pydantic-ai-slim[openai]"),
}
_AS_CLIENTS = {"langchain": "py-deepagents", "pydantic-ai": "py-pydantic-ai"}


def environment(name: str, root: Path = ROOT) -> Path | None:
    """Where a tool is installed, as a peer or as a client; None where it is not."""
    places = [root / ".peers" / name, *(root / ".clients" / folder for folder in [_AS_CLIENTS.get(name)] if folder)]
    return next((place for place in places if _has(place)), None)


def provide(name: str, root: Path = ROOT) -> str:
    """See that a tool is there; how that went, in a few words."""
    pinned = " ".join(PEERS[name])
    found = environment(name, root)
    if found is not None and _has(found) == pinned:
        return f"{pinned} is there"
    place = root / ".peers" / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        install(Client("pip", PEERS[name]), place)
    except (Failed, OSError) as error:
        shutil.rmtree(place, ignore_errors=True)
        return f"{pinned} could not be installed and is skipped ({error})"
    (place / ".installed").write_text(pinned, "utf-8")
    return f"{pinned} installed"


def _has(place: Path) -> str:
    """What was asked for when an environment was made; empty where that was not completed."""
    ready = place / ".installed"
    return ready.read_text("utf-8").strip() if ready.is_file() else ""


def main(arguments: list[str]) -> int:
    unknown = [name for name in arguments if name not in PEERS]
    if unknown:
        print(f"usage: install_peers [NAME…]   (known: {', '.join(PEERS)})", file=sys.stderr)
        return 2
    for name in arguments or PEERS:
        said = provide(name)
        if not said.endswith("is there"):
            print(f"{name}: {said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
