"""A run that can make no progress: its own error, so that a command can say so in one line."""

from __future__ import annotations

from typing import final


@final
class StalledError(RuntimeError):
    """Nothing can happen any more, or nothing has for too long; the message names who waits for what."""
