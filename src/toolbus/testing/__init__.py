"""What users need to test their handlers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.errors import LawBroken as LawBroken
    from toolbus.testing.checks import check_adapter as check_adapter
    from toolbus.testing.fakes import FakeClock as FakeClock
    from toolbus.testing.fakes import counting_ids as counting_ids
    from toolbus.testing.recorder import Recorder as Recorder

_FACE = {
    "FakeClock": "toolbus.testing.fakes",
    "LawBroken": "toolbus.errors",
    "Recorder": "toolbus.testing.recorder",
    "check_adapter": "toolbus.testing.checks",
    "counting_ids": "toolbus.testing.fakes",
}

__all__ = ["FakeClock", "LawBroken", "Recorder", "check_adapter", "counting_ids"]


def __getattr__(name: str) -> Any:
    # Lazy, so that a clock costs no hypothesis.
    if name not in _FACE:
        msg = f"module 'toolbus.testing' has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(_FACE[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
