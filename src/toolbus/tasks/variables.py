"""Context variables that hold a value for a while, also where a loop leaves the work behind."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import ContextVar, Token

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Let *variable* hold *value* in this block."""
    token = variable.set(value)
    try:
        yield value
    finally:
        give_back(variable, token)


def give_back(variable: ContextVar[T], token: Token[T]) -> None:
    """Let *variable* hold what it held before *token* was given."""
    # A coroutine that its loop left behind is closed in a foreign context, which never held it.
    with suppress(ValueError):
        variable.reset(token)
