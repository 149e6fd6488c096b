"""The door to hypothesis, of the extra `testing`."""

from __future__ import annotations

from toolbus.settings.extras import needs_extra

try:
    import hypothesis
    from hypothesis import strategies
except ImportError as error:
    msg = needs_extra("toolbus.testing.strategies and its checks need hypothesis", "testing")
    raise ImportError(msg) from error

__all__ = ["hypothesis", "strategies"]
