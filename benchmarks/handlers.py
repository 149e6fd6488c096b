"""Handlers with code of their own: what is specialised for one says nothing of the next."""

from __future__ import annotations

from typing import Any

SYNC = "def handler(value): pass"
ASYNC = "async def handler(value): pass"


def functions(count: int, source: str = SYNC, **names: Any) -> tuple[Any, ...]:
    """Return *count* functions named `handler`, each compiled by itself from *source*."""
    made = []
    for number in range(count):
        space = dict(names)
        exec(compile(source, f"<handler {number}>", "exec"), space)  # noqa: S102 - our own text
        made.append(space["handler"])
    return tuple(made)


def observe_loop(handlers: tuple[Any, ...], value: object) -> None:
    """Do what a program without a bus would do."""
    for handler in handlers:
        handler(value)


async def observe_loop_async(handlers: tuple[Any, ...], value: object) -> None:
    """Do the same with async handlers."""
    for handler in handlers:
        await handler(value)


def reduce_loop(handlers: tuple[Any, ...], value: Any) -> Any:
    """Give each handler what the one before it left."""
    for handler in handlers:
        changed = handler(value)
        if changed is not None:
            value = changed
    return value


async def reduce_loop_async(handlers: tuple[Any, ...], value: Any) -> Any:
    """Do the same with async handlers."""
    for handler in handlers:
        changed = await handler(value)
        if changed is not None:
            value = changed
    return value
