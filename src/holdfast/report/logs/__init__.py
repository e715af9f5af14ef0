"""The logs that clients already keep, as provider requests one by one: a reader for each format, found by content.

Readers stream: they hold a line at a time and what a conversation needs to be told apart, never a file. A line that
cannot be read is handed on as `Broken` and the rest goes on. Knows nothing of breaks, prices or cache rules;
imports `store`, `identity`, `wire`, `config`, `facts`, `canonical`. `finding` is the door; a new format is a module and
a line in `formats`.
"""
