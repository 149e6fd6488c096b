"""The change that a call makes to a file, described before and after it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.workspace.line_differences import compare_lines, describe_size
from toolbus.workspace.text_files import bounded

if TYPE_CHECKING:
    from pathlib import Path


class FileChange(NamedTuple):
    """The texts *before* (None: a new file) and *after* of *target*, displayed as *shown*."""

    target: Path
    shown: str
    before: str | None
    after: str

    @property
    def summary(self) -> str:
        """The size of the change, in a few words."""
        if self.before is None:
            return f"a new file, {describe_size(self.after)}"
        if self.before == self.after:
            return "nothing changes"
        return compare_lines(self.before, self.after).summary

    @property
    def difference(self) -> str:
        """The unified difference, bounded; "" for a new file."""
        if self.before is None:
            return ""
        return bounded(compare_lines(self.before, self.after).lines)

    def describe(self) -> str:
        """Return the description for a model: a line, and the difference below it.

        The difference has no context lines: they could show a part of a key of several lines,
        which no redaction recognizes.
        """
        if self.before == self.after:
            return f"{self.shown} is unchanged"
        first = f"{self.shown} was written: {self.summary}"
        if self.before is None:
            return first
        return f"{first}\n{bounded(compare_lines(self.before, self.after, 0).lines)}"
