"""Settings: one typed schema, read from `holdfast.toml`, `[agents.NAME]` blocks, the environment and flags.

Says what a value is and where it came from, and in `inert` where it has no effect; nothing else here knows what a value
is used for. Opens no file but the two `holdfast.toml`. Secrets have no place here. May import `facts`,
`canonical` and `errors`.
"""

from holdfast.config.keys import KEYS, SECTIONS, Key
from holdfast.config.loader import load, load_here
from holdfast.config.origin import Origin
from holdfast.config.resolution import Config
from holdfast.config.schema import Settings

__all__ = ["KEYS", "SECTIONS", "Config", "Key", "Origin", "Settings", "load", "load_here"]
