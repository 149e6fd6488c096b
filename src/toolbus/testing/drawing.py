"""The door to hypothesis, of the extra `testing`."""

from __future__ import annotations

try:
    import hypothesis
    from hypothesis import strategies
except ImportError as error:
    msg = "toolbus.testing.strategies and its checks need hypothesis; install `toolbus[testing]`"
    raise ImportError(msg) from error

__all__ = ["hypothesis", "strategies"]
