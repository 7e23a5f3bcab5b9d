import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def hears_interrupts() -> Iterator[None]:
    """Tests that run in the background of a shell inherit that SIGINT is ignored, and hand it on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
