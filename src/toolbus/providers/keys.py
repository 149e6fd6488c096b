"""Keys of providers: where they come from, and that nobody reads them by accident."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.errors import RegistrationError
from toolbus.settings.private_files import UnfitFileError, read_secret_file

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 10_000
# What may stand in a header (RFC 9110, 5.5), and no white space.
_SOUND = re.compile(r"[!-~]+")
# A shorter one is no key of anybody's, and may well be a word of the text.
_SHORTEST_HIDDEN = 6


class ApiKey:
    """A key; printed, it says only where it came from."""

    __slots__ = ("_text", "source")

    def __init__(self, text: str, source: str) -> None:
        if not _SOUND.fullmatch(text):
            reason = "it is empty" if not text else "it has letters that no key has"
            raise RegistrationError(f"key of {source}", reason)
        self._text, self.source = text, source

    def __repr__(self) -> str:
        return f"ApiKey({self.source!r})"

    def reveal(self) -> str:
        """Return the key itself, for a header."""
        return self._text


def find_key(variable: str | None, file: str | Path | None) -> ApiKey | None:
    """Return the key in *file*, else in the environment's *variable*; None if that is not set.

    Raises `RegistrationError` for a file that cannot be read, or that others may read or write.
    """
    if file is not None:
        return ApiKey(_read_private(Path(file)).strip(), f"file {str(file)!r}")
    text = os.environ.get(variable, "").strip() if variable else ""
    return ApiKey(text, f"variable {variable!r}") if text else None


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return *text* without the *secrets*, which a server may have repeated in its error."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_HIDDEN:
            text = text.replace(secret, "[key]")
    return text


def _read_private(file: Path) -> str:
    try:
        # Links are followed: systems that hand out secrets mount them behind links.
        data = read_secret_file(Path(os.path.realpath(file)), _LONGEST)
    except UnfitFileError as error:
        raise _refused(file, error.reason) from None
    except OSError as error:
        raise _refused(file, f"it cannot be read: {error.strerror}") from None
    return data.decode(errors="replace")


def _refused(file: Path, reason: str) -> RegistrationError:
    return RegistrationError(f"key_file {str(file)!r}", reason)
