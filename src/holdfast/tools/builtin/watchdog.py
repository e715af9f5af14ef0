"""A small shell that watches us: when we are gone, however we went, it ends the processes we leave behind.

It reads from a pipe whose other end only this program holds. `+ 12 MARK` and `- 12 MARK` are groups to end and to
forget, with the variable that their processes have in the environment, also those that left the group; 0 stands for a
group that is about to begin, and whose number is not known yet. The end of the pipe is the end of us.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading

_SCRIPT = """trap '' INT HUP TERM QUIT
g=' '
while read -r o p; do
p=${p%% *}:${p#* }
case $o in
+) g="$g$p " ;;
-) g="${g%% $p *} ${g#* $p }" ;;
esac
done
end() {
for p in $g; do
[ ${p%%:*} = 0 ] || kill -$1 -${p%%:*}
for f in $(grep -lsF -e "${p#*:}=" /proc/[0-9]*/environ); do
f=${f%/environ}
kill -$1 ${f#/proc/}
done
done
}
end TERM
[ "$g" = ' ' ] || sleep 1
end KILL
"""


class Guardian:
    """Started with the first group that is to be guarded. Without it commands run all the same."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._groups: set[tuple[int, str]] = set()
        self._lock = threading.Lock()

    def add(self, group: int, mark: str) -> None:
        with self._lock:
            if self._shell is None:
                with contextlib.suppress(OSError):  # no process left for it
                    self._shell = _shell()
            self._groups.add((group, mark))
            self._say(f"+ {group} {mark}\n")

    def remove(self, group: int, mark: str) -> None:
        with self._lock:
            if (group, mark) in self._groups:
                self._groups.discard((group, mark))
                self._say(f"- {group} {mark}\n")

    def close(self) -> None:
        """Let go of every group, and of the shell. What is still to be ended has been ended by now."""
        with self._lock:
            shell, self._shell = self._shell, None
            self._groups.clear()
        if shell is not None:
            shell.kill()
            shell.communicate()

    def _say(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # somebody ended it: commands go on unguarded
                self._shell.stdin.write(line.encode("ascii"))


def _shell() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.defpath},
        bufsize=0,
        start_new_session=True,
    )
