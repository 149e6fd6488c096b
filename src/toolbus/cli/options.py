"""Options of several commands: the model, the wait for an answer, and the address of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.parser import pause
from toolbus.config.approvals import read_store_key
from toolbus.config.documents import NAME, read_document
from toolbus.config.named_keys import KeySettingError, named_key
from toolbus.settings.usage_error import UsageError
from toolbus.settings.user_folders import config_folder, value_key_file
from toolbus.settings.user_key import UserKeyError, user_key
from toolbus.store.store_factory import is_postgres

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Parser

MODEL = "TOOLBUS_MODEL"
"""The environment variable with the model's name."""

STORE_HELP = "a file, postgresql://… or service=NAME; default: the store of the hooks"

KEY_HELP = "env:NAME, or a file NAME.key in your configuration's folder"

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


def store_key(setting: str | None, *, make: bool = True) -> bytes:
    """Return the key that *setting* names, else the `[store]` has in the user's configuration.

    Without both it is the user's own key; *make* it if it is missing. Raises `UsageError` and
    `ConfigurationError`.
    """
    folder = config_folder()
    try:
        if setting is not None:
            return named_key(setting)
        has_file = folder is not None and (folder / NAME).exists()
        key = read_store_key(read_document(folder / NAME)) if folder and has_file else None
        file = value_key_file()
        if key is None and not (make or file.exists()):
            raise UsageError(f"there is no key {str(file)!r}; name the list's key with --key")
        return key or user_key(file)
    except (KeySettingError, UserKeyError, RuntimeError) as error:
        raise UsageError(f"the key cannot be used: {error}") from error
