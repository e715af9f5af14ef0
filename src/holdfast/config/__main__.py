"""`python -m holdfast.config --markdown` writes the configuration reference to standard output."""

from __future__ import annotations

import sys

from holdfast.config.show import as_markdown


def main(arguments: list[str]) -> int:
    if arguments != ["--markdown"]:
        sys.stderr.write("usage: python -m holdfast.config --markdown > docs/configuration.md\n")
        return 2
    sys.stdout.write(as_markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
