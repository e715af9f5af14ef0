"""What is known from one session to the next: USER.md and MEMORY.md of a workspace, and the knowledge of a tenant.

The files are small, written whole or not at all. Knowledge is entries in the store: checked before they are kept, with
their history, found by words or by meaning, exported and imported as Markdown. `surface` chooses what of it a
prompt says and when; the agent makes entries of that, `injection` puts it into requests of the gateway's clients. May
import everything below it.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .checks import project_name
    from .embedders import embedder
    from .entries import (
        CATEGORIES,
        PREFERENCE,
        Category,
        ContextBlock,
        Delta,
        Hit,
        KnowledgeCategory,
        KnowledgeEntry,
        KnowledgeFilter,
        StableBlock,
    )
    from .files import FILES, STORES, MemoryFiles, digest
    from .ids import LEAST, begun, is_id, is_named, project_of, tidy
    from .injection import MemoryInjector
    from .judgement import Judge, Judgement, project_label, utc_time
    from .knowledge import Knowledge, UnchangedError
    from .markdown import EVERYWHERE, Imported, Planned, exported, import_, parsed, planned
    from .prompt_texts import ANNOUNCEMENT_AGENT
    from .surface import CONSIDERED, NET, Surfacing
    from .texts import beginning, whole
    from .tools import EMPTY, MEMORY_ADD, knowledge_tools, memory_tools
    from .vectors import Vectors
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".checks": "project_name",
            ".embedders": "embedder",
            ".entries": (
                "CATEGORIES Category ContextBlock Delta Hit KnowledgeCategory KnowledgeEntry "
                "KnowledgeFilter PREFERENCE StableBlock"
            ),
            ".files": "FILES MemoryFiles STORES digest",
            ".ids": "LEAST begun is_id is_named project_of tidy",
            ".injection": "MemoryInjector",
            ".judgement": "Judge Judgement project_label utc_time",
            ".knowledge": "Knowledge UnchangedError",
            ".markdown": "EVERYWHERE Imported Planned exported import_ parsed planned",
            ".prompt_texts": "ANNOUNCEMENT_AGENT",
            ".surface": "CONSIDERED NET Surfacing",
            ".texts": "beginning whole",
            ".tools": "EMPTY MEMORY_ADD knowledge_tools memory_tools",
            ".vectors": "Vectors",
        },
    )
