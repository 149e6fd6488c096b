"""Keys of providers: their sources, and protection against accidental disclosure."""

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
# Characters of a header's value (RFC 9110, 5.5), without white space.
_VALID = re.compile(r"[!-~]+")
# A shorter secret is hardly a key, and may be an ordinary word of the error.
_SHORTEST_HIDDEN = 6


class ApiKey:
    """A key whose representation shows only its source."""

    __slots__ = ("_text", "source")

    def __init__(self, text: str, source: str) -> None:
        if not _VALID.fullmatch(text):
            reason = "the key is empty" if not text else "the key has invalid characters"
            raise RegistrationError(f"key of {source}", reason)
        self._text, self.source = text, source

    def __repr__(self) -> str:
        return f"ApiKey({self.source!r})"

    def reveal(self) -> str:
        """Return the key itself, for a header."""
        return self._text


def find_key(variable: str | None, file: str | Path | None) -> ApiKey | None:
    """Return the key in *file*, or in the environment's *variable*; None if neither is set.

    Raises `RegistrationError` for a file that is unreadable or accessible to other users.
    """
    if file is not None:
        return ApiKey(_read_private(Path(file)).strip(), f"file {str(file)!r}")
    text = os.environ.get(variable, "").strip() if variable else ""
    return ApiKey(text, f"variable {variable!r}") if text else None


def hide_keys(text: str, secrets: Iterable[str]) -> str:
    """Return *text* without the *secrets*, which a server may repeat in its error."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_HIDDEN:
            text = text.replace(secret, "[key]")
    return text


def _read_private(file: Path) -> str:
    try:
        # Links are followed, because secret managers mount files behind links.
        data = read_secret_file(Path(os.path.realpath(file)), _LONGEST)
    except UnfitFileError as error:
        raise _refused(file, error.reason) from None
    except OSError as error:
        raise _refused(file, f"cannot read the file: {error.strerror}") from None
    return data.decode(errors="replace")


def _refused(file: Path, reason: str) -> RegistrationError:
    return RegistrationError(f"key_file {str(file)!r}", reason)
