"""What an error says when an extra is missing."""

from __future__ import annotations


def needs_extra(purpose: str, extra: str) -> str:
    """Return what to do for *purpose*, which says who needs which library, without the *extra*."""
    install = f"install the extra, `pip install '.[{extra}]'` in the folder of toolbus's source"
    return f"{purpose}; {install} (it is on no package index)"
