"""What the words of a report mean, for those who read it for the first time."""

from __future__ import annotations

MEANINGS = {
    "model_changed": "The request went to another model, whose cache is another one.",
    "tools_changed": "The list of tools was not the same; it stands before everything else.",
    "system_prompt_changed": "The system prompt was not the same; all messages stand behind it.",
    "parameters_changed": "A setting changed on which the cached messages depend.",
    "messages_rewritten": "Messages that had been sent before were changed, moved or left out.",
    "ttl_expired_5m": "The next request came after the five minutes that the cache keeps a prompt.",
    "ttl_expired_1h": "The next request came after the hour that the cache keeps a prompt.",
    "lookback_exceeded": "No marker was close enough to what the cache still held.",
    "below_minimum": "What could have been read was shorter than the cache's minimum.",
    "parallel_race": "The request was sent before the answer that fills the cache had begun.",
    "likely_server_side": "Nothing changed on this side; the provider had most likely dropped the entry.",
    "unknown": "Nothing that is known explains it.",
    "session_start": "The session began.",
    "session_load": "The session was taken up again.",
    "compaction": "The client summarised the conversation to make room.",
    "priced_edit": "An edit of sent messages that pays for itself.",
    "model_switch": "The user chose another model.",
    "effort_changed": "The user chose another effort.",
    "tools_changed_by_user": "The user changed the tools.",
    "tools_redeclared": "The tools were declared anew.",
    "volatile_system_changed": "The part of the system prompt that may change did.",
    "memory_block_changed": "The memory in front of the conversation changed.",
    "history_trimmed": "Old messages were dropped to make room.",
    "repair_forgotten": "A repair of earlier requests was no longer known.",
    "bypassed": "Requests in between went past Holdfast.",
    "unmarked": "Most conversations ended with their first request, so the request went without cache markers.",
}

EVIDENCE = {
    "bytes": "seen in the bytes of the requests",
    "usage": "concluded from the billed tokens",
    "log": "told by the log",
}
