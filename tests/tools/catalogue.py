"""Sixty-three tools as servers and hosts offer them, for tests that look for one among many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.tools.contract import Tool, ToolContext, ToolOutput

SERVERS: dict[str, dict[str, tuple[str, str]]] = {
    "github": {
        "create_issue": ("Open a new issue in a repository with a title and a body.", "owner repo title body labels"),
        "list_issues": ("List issues of a repository, filtered by state and labels.", "owner repo state labels page"),
        "add_issue_comment": ("Add a comment to an existing issue.", "owner repo issue_number body"),
        "create_pull_request": ("Open a pull request from a branch.", "owner repo head base title draft"),
        "merge_pull_request": ("Merge an open pull request.", "owner repo pull_number merge_method"),
        "get_pull_request_diff": ("Show the changed lines of a pull request.", "owner repo pull_number"),
        "request_reviewers": ("Ask people to review a pull request.", "owner repo pull_number reviewers"),
        "search_code": ("Search source code across repositories.", "q sort per_page"),
        "get_file_contents": ("Read a file or a directory at a branch or commit.", "owner repo path ref"),
        "create_branch": ("Make a new branch from another one.", "owner repo branch from_branch"),
        "list_workflow_runs": ("List CI runs of a workflow and whether they passed.", "owner repo workflow_id status"),
        "rerun_failed_jobs": ("Start the failed CI jobs of a run again.", "owner repo run_id"),
    },
    "slack": {
        "post_message": ("Send a message to a channel or a person.", "channel_id text thread_ts"),
        "reply_to_thread": ("Answer in a thread.", "channel_id thread_ts text"),
        "list_channels": ("List the public channels of the workspace.", "limit cursor"),
        "get_channel_history": ("Read the latest messages of a channel.", "channel_id limit oldest"),
        "add_reaction": ("React to a message with an emoji.", "channel_id timestamp reaction"),
        "get_user_profile": ("Look up a person: name, title, time zone.", "user_id"),
        "upload_file": ("Put a file into a channel.", "channel_id filename content"),
        "set_topic": ("Change what a channel says it is about.", "channel_id topic"),
    },
    "calendar": {
        "create_event": ("Schedule a meeting with attendees, a place and a time.", "summary start end attendees"),
        "update_event": ("Reschedule a meeting or change who is invited.", "event_id start end attendees"),
        "delete_event": ("Cancel a meeting.", "event_id notify"),
        "list_events": ("Show the agenda between two dates.", "time_min time_max calendar_id"),
        "find_free_slots": ("Find times at which several people are available.", "attendees duration_minutes"),
        "set_working_hours": ("Say from when to when somebody works.", "weekday start end"),
    },
    "postgres": {
        "run_query": ("Run a read-only SQL statement and return its rows.", "sql parameters"),
        "explain_query": ("Show the execution plan of a SQL statement.", "sql analyze"),
        "list_tables": ("List the tables of a schema.", "schema"),
        "describe_table": ("Show columns, types and indexes of a table.", "schema table"),
        "vacuum_table": ("Reclaim space and refresh statistics of a table.", "schema table full"),
        "list_locks": ("Show which sessions block each other.", "min_seconds"),
    },
    "browser": {
        "navigate": ("Open a URL in the browser.", "url"),
        "click": ("Press an element of the page.", "selector"),
        "fill_form": ("Type values into the fields of a form.", "fields"),
        "take_screenshot": ("Save a picture of the page.", "full_page"),
        "read_console": ("Read what the page wrote to its console.", "level"),
        "wait_for": ("Wait until a text or an element appears.", "text timeout"),
    },
    "kubernetes": {
        "listPods": ("List pods with their state and restarts.", "namespace labelSelector"),
        "getPodLogs": ("Read the log of a container.", "namespace pod container tailLines"),
        "scaleDeployment": ("Change how many replicas a deployment has.", "namespace deployment replicas"),
        "rolloutRestart": ("Restart a deployment pod by pod.", "namespace deployment"),
        "applyManifest": ("Create or change resources from YAML.", "manifest dryRun"),
        "describeNode": ("Show capacity, conditions and taints of a machine.", "node"),
    },
    "billing": {
        "create-invoice": ("Bill a customer for line items.", "customer_id items currency due_date"),
        "refund-payment": ("Give money back for a charge, in part or in full.", "payment_id amount reason"),
        "list-subscriptions": ("List what customers pay for regularly.", "customer_id status"),
        "cancel-subscription": ("End a recurring payment at the end of its period.", "subscription_id"),
        "apply-coupon": ("Take a discount off an invoice.", "invoice_id coupon"),
        "export-ledger": ("Write all bookings of a month to a CSV file.", "month"),
    },
    "home": {
        "lights.set": ("Turn lamps on or off, or dim them.", "room brightness"),
        "heating.set": ("Set the temperature of a room.", "room celsius"),
        "door.lock": ("Lock or unlock the front door.", "locked"),
        "vacuum.start": ("Send the robot to clean the floor.", "room"),
        "music.play": ("Play a song, an album or a radio station.", "query room volume"),
    },
}
OWN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "translate_text": ("Translate a text into another language.", "text target_language", ("localise",)),
    "send_email": ("Send an e-mail with attachments.", "to subject body attachments", ("mail", "smtp", "letter")),
    "get_weather": ("Weather now and for the next days.", "location units", ("forecast", "rain", "temperature")),
    "convert_currency": ("Convert an amount by today's rate.", "amount from to", ("exchange", "euro", "dollar")),
    "render_chart": ("Draw a bar, line or pie chart from numbers.", "kind data", ("plot", "graph", "diagram")),
    "remember_fact": ("Keep a fact for later conversations.", "fact", ()),
    "make_qr_code": ("Make a QR code for a link.", "text size", ()),
    "shorten_url": ("Make a short link.", "url", ()),
}


async def nothing(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content="done")


def made(name: str, description: str, parameters: str, **more: Any) -> Tool:
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in parameters.split()}}
    return Tool(
        name=name, description=description, run=nothing, effect="read", input_schema=json.dumps(schema).encode(), **more
    )


def catalogue() -> list[Tool]:
    """All of them: those of servers under the names that a hub gives them."""
    tools = [made(name, said, parameters, hints=hints) for name, (said, parameters, hints) in OWN.items()]
    for server, offered in SERVERS.items():
        for name, (said, parameters) in offered.items():
            tools.append(made(f"mcp__{server}__{name}", said, parameters, source="mcp", server=server))
    return tools
