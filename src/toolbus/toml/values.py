"""The conversion of file values to types of the code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

_PLACE = re.compile(r"(?P<reason>.*?)(?: - at `(?P<path>\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")


class MisfitError(Exception):
    """A value does not have the wanted type; *path* leads from it to the mistake."""

    def __init__(self, reason: str, *path: str | int) -> None:
        self.reason, self.path = reason, path
        super().__init__(reason, *path)


def fit(value: object, kind: Any, folder: Path) -> Any:
    """Return *value* as a *kind*: any type that msgspec knows, a path or a regular expression.

    A relative path starts at *folder*. Raises `MisfitError`.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=partial(_read, folder))
    except MisfitError:
        raise
    except msgspec.ValidationError as error:
        match = _PLACE.fullmatch(str(error))
        assert match is not None  # noqa: S101 - for mypy: everything matches
        reason = match["reason"][:1].lower() + match["reason"][1:]
        raise MisfitError(reason, *_steps(match["path"] or "")) from None
    except Exception as error:
        raise MisfitError(format_error(error)) from error


def _read(folder: Path, kind: Any, value: Any) -> object:
    """Return *value* as a *kind* that msgspec does not know."""
    family = get_origin(kind) or kind
    if kind is object:
        return value
    if family is Iterable:
        inner: Any = get_args(kind)[0] if get_args(kind) else Any
        return fit(value, tuple[inner, ...], folder)
    name = getattr(kind, "__name__", kind)
    if family not in {Path, re.Pattern}:
        raise MisfitError(f"a file cannot contain a `{name}`")
    if not isinstance(value, str):
        raise MisfitError(f"expected `str` for a `{name}`, got `{type(value).__name__}`")
    if family is Path:
        return folder / Path(value).expanduser()
    try:
        return re.compile(value)
    except re.error as error:
        raise MisfitError(f"invalid regular expression: {error}") from None


def _steps(path: str) -> list[str | int]:
    """Return the keys and indices of msgspec's *path*, up to its first unknown index."""
    known, _, _ = path.partition("[...]")
    return [step["key"] or int(step["index"]) for step in _STEP.finditer(known)]


def format_error(error: BaseException) -> str:
    """Return the type and the text of *error* in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
