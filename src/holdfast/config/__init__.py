"""Settings: one typed schema, read from `holdfast.toml`, `[agents.NAME]` blocks, the environment and flags.

Says what a value is and where it came from, and in `inert` where it has no effect; nothing else here knows what a value
is used for. Opens no file but the two `holdfast.toml`. Secrets have no place here. May import `facts`,
`records` and `errors`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import inert
    from .document import FILE, Origin, printable
    from .file_writer import as_toml, write_value
    from .inert import notes
    from .keys import KEYS, SECTIONS, SERVER_KEYS, Key
    from .loader import holdfast_home, load, load_config
    from .parse import NotAllowedError, check, expand, mask, quoted
    from .private_home import close_to_others, secret
    from .resolution import ROOTS, Config, configured_facts, resolve
    from .sections.settings import Settings
    from .servers import LONGEST_NAME, contradiction, is_name
    from .show import as_json, as_text
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "inert",
            ".document": "FILE Origin printable",
            ".file_writer": "as_toml write_value",
            ".inert": "notes",
            ".keys": "KEYS Key SECTIONS SERVER_KEYS",
            ".loader": "holdfast_home load load_config",
            ".parse": "NotAllowedError check expand mask quoted",
            ".private_home": "close_to_others secret",
            ".resolution": "Config ROOTS configured_facts resolve",
            ".sections.settings": "Settings",
            ".servers": "LONGEST_NAME contradiction is_name",
            ".show": "as_json as_text",
        },
    )
