"""What is known from one session to the next: USER.md and MEMORY.md of a workspace, and the knowledge of a tenant.

The files are small, written whole or not at all. Knowledge is entries in the store: checked before they are kept, with
their history, found by words or by meaning, exported and imported as Markdown. `surfacing` chooses what of it
a prompt says and when; the agent makes entries of that, `injecting` puts it into requests of the gateway's clients. May
import everything below it.
"""

from .entries import CATEGORIES, Category, Hit, KnowledgeCategory, KnowledgeEntry
from .files import MemoryFiles, digest
from .knowledge import Knowledge
from .markdown import Imported, exported, import_
from .tools import memory_tools

__all__ = [
    "CATEGORIES",
    "Category",
    "Hit",
    "Imported",
    "Knowledge",
    "KnowledgeCategory",
    "KnowledgeEntry",
    "MemoryFiles",
    "digest",
    "exported",
    "import_",
    "memory_tools",
]
