"""Calls through the engine, whoever carries them: `Passages` for the gateway, HTTP clients for the official SDKs.

A passage takes a request's bytes in, gives the bytes to send, reads the answer as it passes and settles. Imports
`identity`, `engine` and below; knows no server.
"""

from .client_request import Incoming, without_ours
from .passage import Passage, Passages
from .response_headers import Held

__all__ = ["Held", "Incoming", "Passage", "Passages", "without_ours"]
