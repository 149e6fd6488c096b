"""Text files: reading by lines, replacing a text, and atomic writing."""

from __future__ import annotations

from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from toolbus.settings.files import reason_of
from toolbus.workspace.working_folder import FileToolError, check_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LARGEST = 10_000_000
"""The most bytes of a file to read."""

_LONGEST_LINE, _MOST_DIFFERENT = 2_000, 400


def read_text(path: Path) -> str:
    """Return the text of *path* with its original line ends; raises `FileToolError`."""
    check_regular(path)
    try:
        if (size := path.stat().st_size) > _LARGEST:
            reason = f"{path.name!r} has {size:,} bytes, and the limit is {_LARGEST:,}"
            raise FileToolError(f"{reason}; use search_files to find lines in it")
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise FileToolError(f"{path.name!r} is not UTF-8 text") from None
    except OSError as error:
        raise FileToolError(f"{path.name!r}: {reason_of(error)}") from None


def write_text(path: Path, text: str) -> None:
    """Write *text* to *path* atomically; missing folders are created, and the mode is kept.

    Raises `FileToolError`.
    """
    if path.exists():
        check_regular(path)
    temporary = path.with_name(f".{path.name[:50]}.{token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise FileToolError(f"{path.name!r} cannot be written: {reason_of(error)}") from None


def page(text: str, first: int, count: int) -> str:
    """Return *count* lines of *text* beginning at line *first*, and where to continue."""
    lines = text.splitlines()
    if first > max(len(lines), 1):
        raise FileToolError(f"the file has {len(lines):,} lines, so line {first:,} does not exist")
    shown = lines[first - 1 : first - 1 + count]
    body = "\n".join([_shortened(line) for line in shown])
    end = first - 1 + len(shown)
    if first == 1 and end == len(lines):
        return body
    rest = f"; continue with offset={end + 1}" if end < len(lines) else ""
    return f"{body}\n[lines {first:,} to {end:,} of {len(lines):,}{rest}]"


def replaced(text: str, old: str, new: str, *, everywhere: bool) -> str:
    """Return *text* with *old*, which occurs in it once, replaced by *new*.

    Raises `FileToolError`.
    """
    if "\r\n" in text and "\r\n" not in old:
        # Models write "\n" also for files with "\r\n".
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    if not old:
        raise FileToolError("old_text is empty; use write_file to write a whole file")
    if old == new:
        raise FileToolError("old_text and new_text are the same")
    count = text.count(old)
    if not count:
        raise FileToolError("old_text is not in the file; read the file again and copy exactly")
    if count > 1 and not everywhere:
        reason = f"old_text occurs {count} times in the file"
        raise FileToolError(f"{reason}; include more lines around it, or set replace_all=true")
    return text.replace(old, new)


def bounded(lines: Sequence[str]) -> str:
    """Return the *lines* of a difference as text, cut to a limit."""
    shown = [_shortened(line) for line in lines[:_MOST_DIFFERENT]]
    if len(lines) > len(shown):
        shown.append(f"[{len(lines) - len(shown):,} more lines of the difference]")
    return "\n".join(shown)


def _shortened(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:_LONGEST_LINE]}[… {len(line) - _LONGEST_LINE:,} characters of this line …]"
