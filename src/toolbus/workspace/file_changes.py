"""What a call makes of a file, told before it is written and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.workspace.line_differences import compare_lines, describe_size
from toolbus.workspace.text_files import bounded

if TYPE_CHECKING:
    from pathlib import Path


class FileChange(NamedTuple):
    """The file *target*, called *shown*, before, None if it is not there, and *after*."""

    target: Path
    shown: str
    before: str | None
    after: str

    @property
    def summary(self) -> str:
        """How much changes, in a few words."""
        if self.before is None:
            return f"a new file, {describe_size(self.after)}"
        if self.before == self.after:
            return "nothing changes"
        return compare_lines(self.before, self.after).summary

    @property
    def difference(self) -> str:
        """The unified difference, bounded; nothing for a new file, which is all new."""
        if self.before is None:
            return ""
        return bounded(compare_lines(self.before, self.after).lines)

    def describe(self) -> str:
        """Return what a model is told of it: a line, and the difference below.

        It has no lines around: of a key of several lines they would show a part, which no
        redaction knows.
        """
        if self.before == self.after:
            return f"{self.shown} is as it was"
        first = f"{self.shown} is written: {self.summary}"
        if self.before is None:
            return first
        return f"{first}\n{bounded(compare_lines(self.before, self.after, 0).lines)}"
