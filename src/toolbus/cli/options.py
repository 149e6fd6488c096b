"""Options that several commands share: the model, the wait for an answer, the name of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.parser import pause
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import is_postgres

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Parser

MODEL = "TOOLBUS_MODEL"
"""The environment variable with the model's name."""

STORE_HELP = "a file, postgresql://… or service=NAME; without it, the store of the hooks"

_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})

HOOKS = "hooks"
"""The name of the hooks' store, unless a file of that name is in this folder."""


def add_model_options(parser: Parser) -> None:
    """Let *parser* take a model, its address and the variable with its key."""
    parser.add_argument("--model", metavar="MODEL", help="PROVIDER:NAME, or replay:FILE")
    parser.add_argument("--base-url", metavar="URL", help="ask the model at this address")
    parser.add_argument(
        "--key-env",
        metavar="VARIABLE",
        help="the variable with the key; that of the provider goes to no --base-url unnamed",
    )


def add_approval_wait(parser: argparse.ArgumentParser, usual: int) -> None:
    """Add `--approval-wait`; *usual* seconds hold if neither it nor a configuration says more."""
    parser.add_argument(
        "--approval-wait",
        type=pause,
        metavar="SECONDS",
        help=f"how long a call waits for an answer from elsewhere ({usual}), with --store",
    )


def check_approval_wait(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Refuse `--approval-wait` without a store, in which others would find the question."""
    if parsed.approval_wait is not None and parsed.store is None:
        parser.error("--approval-wait needs the store where questions are kept; add --store STORE")


def is_store(word: str) -> bool:
    """Return whether *word* names a store: `hooks`, a file, or an address."""
    path = Path(word)
    return word == HOOKS or is_postgres(word) or path.suffix in _SUFFIXES or path.exists()


def store_address(named: str | None) -> str:
    """Return the address of the store *named*; the hooks' store if None or `hooks`.

    Raises `UsageError` if no hook has written that store yet.
    """
    if named is not None and (named != HOOKS or Path(named).exists()):
        return named
    from toolbus.hosts.run.requests import default_store  # noqa: PLC0415 - for few

    try:
        path = default_store()
    except RuntimeError as error:
        raise UsageError(f"{error}; name a store") from error
    if not path.exists():
        raise UsageError(
            f"no hook of a coding agent has run: there is no {str(path)!r}; name a store"
        )
    return str(path)
