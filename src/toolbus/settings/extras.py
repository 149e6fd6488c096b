"""The text of an error about a missing extra."""

from __future__ import annotations


def needs_extra(purpose: str, extra: str) -> str:
    """Return the way to install *extra*, after *purpose*, which names the user and the library."""
    install = f"install the extra, `pip install '.[{extra}]'` in the folder of toolbus's source"
    return f"{purpose}; {install} (it is on no package index)"
