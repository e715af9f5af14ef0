"""Calls through the engine, whoever carries them: `Passages` for the gateway, HTTP clients for the official SDKs.

A passage takes a request's bytes in, gives the bytes to send, reads the answer as it passes and settles. Imports
`identity`, `engine` and below; knows no server.
"""

from .incoming import Incoming, without_ours
from .passage import Passage, Passages
from .saying import Held

__all__ = ["Held", "Incoming", "Passage", "Passages", "without_ours"]
