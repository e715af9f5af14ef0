"""Skills on disk, as tests want them."""

from __future__ import annotations

from pathlib import Path

import yaml


def skill_text(*, body: str = "Do it.\n", **fields: object) -> str:
    """A SKILL.md. A field that is None is left out; `allowed_tools` is written `allowed-tools`."""
    written = {key.replace("_", "-"): value for key, value in fields.items() if value is not None}
    front = yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=10_000) if written else ""
    return f"---\n{front}---\n\n{body}"


def write_skill(
    root: Path, name: str, *, description: str = "Does a thing.", body: str = "Do it.\n", **fields: object
) -> Path:
    """A skill below `root`, whose directory is returned. `fields` are further frontmatter."""
    return write_file(root / name, skill_text(body=body, **{"name": name, "description": description, **fields}))


def write_file(skill_dir: Path, content: str | bytes, *, file: str = "SKILL.md") -> Path:
    """A SKILL.md with exactly this content; the skill's directory is returned."""
    skill_dir.mkdir(parents=True, exist_ok=True)
    (skill_dir / file).write_bytes(content.encode() if isinstance(content, str) else content)
    return skill_dir
