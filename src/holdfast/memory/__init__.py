"""What an agent remembers from one session to the next: USER.md and MEMORY.md of a workspace.

The files are small, written whole or not at all; when and where a prompt says what is in them is the agent's business.
May import everything below it.
"""

from .files import FILES, STORES, Change, MemoryFiles, digest
from .tools import memory_tools

__all__ = ["FILES", "STORES", "Change", "MemoryFiles", "digest", "memory_tools"]
