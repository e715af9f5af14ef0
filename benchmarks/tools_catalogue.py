"""Sixty tools of six invented servers, as long as those that real clients send.

`SIZES` are the characters of the definitions of Claude Code 2.1 (21 tools) and of an airline's support desk (14): the
catalogue takes its sizes from both, spread evenly, so that its sum is theirs per tool. Names and words are our own.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

CLAUDE_CODE = (
    *(289, 445, 663, 810, 902, 1006, 1120, 1196, 1679, 1846, 1975),
    *(2283, 2546, 3788, 4069, 4607, 5017, 5372, 5489, 5800, 7716),
)
AIRLINE = (185, 288, 297, 299, 398, 398, 400, 457, 581, 582, 795, 870, 1117, 2477)
SIZES = (*CLAUDE_CODE, *AIRLINE)

SERVERS: dict[str, dict[str, str]] = {
    "tracker": {
        "create_ticket": "Open a ticket in a project with a title, a text and labels",
        "close_ticket": "Close a ticket and say why it needs no more work",
        "list_tickets": "List the tickets of a project by state, label or owner",
        "comment_ticket": "Add a remark to a ticket that its followers are told of",
        "assign_ticket": "Hand a ticket to somebody else or take it",
        "label_ticket": "Put labels on a ticket or take them off",
        "link_tickets": "Say that one ticket blocks, repeats or belongs to another",
        "search_tickets": "Find tickets whose title or text contains some words",
        "ticket_history": "Show who changed what on a ticket and when",
        "plan_sprint": "Put tickets into the next sprint and set their order",
    },
    "calendar": {
        "create_event": "Put a meeting into a calendar with guests, place and time",
        "move_event": "Move a meeting to another time and tell its guests",
        "cancel_event": "Call a meeting off and tell its guests",
        "list_events": "List the meetings of a day, a week or a month",
        "find_free_time": "Find an hour at which several people have nothing planned",
        "set_reminder": "Remind somebody of a meeting some minutes before",
        "share_calendar": "Let somebody else see or change a calendar",
        "book_room": "Reserve a room with enough seats for a meeting",
        "list_rooms": "List the rooms of a building with seats and equipment",
        "export_calendar": "Write a calendar to a file that other programs read",
    },
    "warehouse": {
        "run_query": "Run a read-only SQL query on the data warehouse",
        "list_tables": "List the tables of a schema with their row counts",
        "describe_table": "Show the columns, types and keys of a table",
        "sample_rows": "Show some rows of a table to see what is in it",
        "explain_query": "Show the plan of a query and what it would cost",
        "create_view": "Store a query under a name so that others can use it",
        "export_rows": "Write the rows of a query to a file in a bucket",
        "load_file": "Load a file from a bucket into a table",
        "grant_access": "Let a person or a group read a table",
        "schedule_query": "Run a query every hour, day or week and keep its rows",
    },
    "deploy": {
        "list_services": "List the running services with version and health",
        "deploy_service": "Roll a new version of a service out, step by step",
        "rollback_service": "Put the version before back for a service",
        "scale_service": "Change how many copies of a service run",
        "service_logs": "Show the last log lines of a service",
        "service_metrics": "Show latency, errors and load of a service",
        "restart_service": "Start the copies of a service anew, one after the other",
        "set_secret": "Give a service a secret by name, without showing it",
        "list_incidents": "List open incidents with severity and who is on call",
        "page_on_call": "Call the person on duty for a service",
    },
    "mail": {
        "send_message": "Send a message to people or groups, with attachments",
        "search_messages": "Find messages by sender, words or date",
        "read_thread": "Show all messages of a conversation in order",
        "archive_thread": "Put a conversation away without deleting it",
        "label_thread": "Give a conversation a label",
        "draft_reply": "Write an answer to a conversation without sending it",
        "list_contacts": "Find people in the address book",
        "create_filter": "Sort messages that match a rule as they come",
        "set_absence": "Answer senders that somebody is away until a day",
        "download_attachment": "Save what was sent with a message to a file",
    },
    "browser": {
        "open_page": "Open an address and wait until the page has settled",
        "click_element": "Click a button or a link on the page",
        "fill_form": "Fill the fields of a form on the page",
        "take_screenshot": "Take a picture of the page or of one element",
        "read_text": "Give the visible text of the page",
        "run_script": "Run JavaScript on the page and give its value",
        "list_requests": "List what the page loaded, with status and size",
        "set_viewport": "Change the size of the window, as a telephone or a desk",
        "upload_file": "Give a file to an upload field",
        "close_page": "Close the page and forget its cookies",
    },
}

ASKED = {
    "create_ticket": "file a bug report",
    "close_ticket": "mark the issue as done",
    "list_tickets": "which issues are open in this project",
    "comment_ticket": "write a comment on an issue",
    "assign_ticket": "give the issue to another developer",
    "label_ticket": "tag an issue",
    "link_tickets": "mark an issue as a duplicate of another ticket",
    "search_tickets": "search issues by keyword",
    "ticket_history": "audit log of an issue",
    "plan_sprint": "plan the next sprint",
    "create_event": "schedule a meeting",
    "move_event": "reschedule a meeting",
    "cancel_event": "cancel an appointment",
    "list_events": "what is on my agenda this week",
    "find_free_time": "when is everybody available",
    "set_reminder": "set a reminder",
    "share_calendar": "share my calendar with a colleague",
    "book_room": "book a conference room",
    "list_rooms": "which meeting rooms are there",
    "export_calendar": "export the calendar as ics",
    "run_query": "execute SQL",
    "list_tables": "show all tables",
    "describe_table": "schema of a table",
    "sample_rows": "preview the data of a table",
    "explain_query": "why is the query slow",
    "create_view": "save a query as a view",
    "export_rows": "export query results to csv",
    "load_file": "import a csv file into the warehouse",
    "grant_access": "give permissions on a table",
    "schedule_query": "recurring query",
    "list_services": "what is running in production",
    "deploy_service": "deploy a new release",
    "rollback_service": "roll back the last deployment",
    "scale_service": "add more instances",
    "service_logs": "look at the error logs",
    "service_metrics": "monitor cpu and latency",
    "restart_service": "reboot a service",
    "set_secret": "store an api key as secret",
    "list_incidents": "current outages and incidents",
    "page_on_call": "page the engineer on call",
    "send_message": "send an email",
    "search_messages": "search my inbox",
    "read_thread": "open an email thread",
    "archive_thread": "archive an email",
    "label_thread": "label an email",
    "draft_reply": "draft a reply",
    "list_contacts": "look up a contact",
    "create_filter": "make a mail filter rule",
    "set_absence": "out of office reply",
    "download_attachment": "download an attachment",
    "open_page": "go to a website",
    "click_element": "press a button on the website",
    "fill_form": "fill in a web form",
    "take_screenshot": "screenshot of the website",
    "read_text": "get the text of the web page",
    "run_script": "execute javascript",
    "list_requests": "network requests of the page",
    "set_viewport": "resize the browser window",
    "upload_file": "upload a file",
    "close_page": "close the browser tab",
}
"""What people say who want one of these and do not know the words of its description."""

_ADVICE = (
    "Use this when the user asks for it in plain words, not as a first step.",
    "Names are matched exactly; look them up before if you are not sure.",
    "What it changes can be seen by everybody in the workspace at once.",
    "Times are given with their zone; a time without one is taken as UTC.",
    "Give at most fifty items at a time and ask again for the rest.",
    "It fails with a sentence that says which argument was wrong.",
    "Prefer one call with several items to several calls with one.",
    "Say in your answer what was done and what was left alone.",
    "Do not use it to find out whether something exists; a list does that for less.",
    "Long texts are cut at ten thousand characters and marked as cut.",
    "A call that is repeated with the same arguments does nothing the second time.",
    "Values that the user gave are passed on as they are, without correction.",
)
_MEMBERS = (
    "name",
    "title",
    "text",
    "project",
    "owner",
    "since",
    "until",
    "limit",
    "labels",
    "notify",
    "format",
    "note",
)


class Definition(Struct, frozen=True, kw_only=True):
    server: str
    name: str
    description: str
    schema: dict[str, Any]


def catalogue() -> tuple[Definition, ...]:
    """The sixty definitions; always the same."""
    names = [(server, name, text) for server, tools in SERVERS.items() for name, text in tools.items()]
    ordered = sorted(SIZES)
    # Evenly spread over the measured sizes, and mixed over the servers by a step that meets every tool once.
    sizes = [ordered[index * len(ordered) // len(names)] for index in range(len(names))]
    return tuple(_sized(*known, sizes[index * 23 % len(names)]) for index, known in enumerate(names))


def _sized(server: str, name: str, text: str, size: int) -> Definition:
    members = min(1 + size // 450, len(_MEMBERS))
    first = sum(name.encode()) % len(_MEMBERS)
    chosen = [_MEMBERS[(first + index) % len(_MEMBERS)] for index in range(members)]
    properties = {
        member: {"type": "string", "description": f"The {member} that {text.split(' ', 1)[0].lower()} needs."}
        for member in chosen
    }
    schema = {"type": "object", "properties": properties, "required": chosen[:1], "additionalProperties": False}
    description, advice = f"{text}.", 0
    while len(json.dumps([name, description, schema])) < size:
        description += " " + _ADVICE[(first + advice) % len(_ADVICE)]
        advice += 1
        if advice % len(_ADVICE) == 0:
            description += f"\n\nExample {advice // len(_ADVICE)}:"
    return Definition(server=server, name=name, description=description, schema=schema)
