"""Options of several commands: the model, the wait for an answer, and the address of a store."""

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

STORE_HELP = "a file, postgresql://… or service=NAME; default: the store of the hooks"

_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})

HOOKS = "hooks"
"""The name of the hooks' store, unless this folder has a file of that name."""


def add_model_options(parser: Parser) -> None:
    """Add the options of a model: its name, its address and the variable with its key."""
    parser.add_argument("--model", metavar="MODEL", help="PROVIDER:NAME, or replay:FILE")
    parser.add_argument("--base-url", metavar="URL", help="the model's address")
    parser.add_argument(
        "--key-env",
        metavar="VARIABLE",
        help="the variable with the key; a server at --base-url gets no other key",
    )


def add_approval_wait(parser: argparse.ArgumentParser, usual: int) -> None:
    """Add `--approval-wait`; the default without it and a configuration is *usual* seconds."""
    parser.add_argument(
        "--approval-wait",
        type=pause,
        metavar="SECONDS",
        help=f"the wait of a call for a remote answer ({usual}), with --store",
    )


def check_approval_wait(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Refuse `--approval-wait` without a store, which is where remote answers arrive."""
    if parsed.approval_wait is not None and parsed.store is None:
        parser.error("--approval-wait needs a store for the questions; add --store STORE")


def is_store(word: str) -> bool:
    """Return whether *word* names a store: `hooks`, a file, or an address."""
    path = Path(word)
    return word == HOOKS or is_postgres(word) or path.suffix in _SUFFIXES or path.exists()


def store_address(named: str | None) -> str:
    """Return the address of the store *named*, for None and `hooks` the hooks' store.

    Raises `UsageError` if the hooks' store does not exist yet.
    """
    if named is not None and (named != HOOKS or Path(named).exists()):
        return named
    from toolbus.hosts.run.requests import default_store  # noqa: PLC0415 - for few

    try:
        path = default_store()
    except RuntimeError as error:
        raise UsageError(f"{error}; name a store") from error
    if not path.exists():
        raise UsageError(f"no hook has run yet: there is no {str(path)!r}; name a store")
    return str(path)
