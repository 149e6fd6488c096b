"""The option of commands that wait for a person's answer from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import pause

if TYPE_CHECKING:
    import argparse


def add_approval_wait(parser: argparse.ArgumentParser, usual: int) -> None:
    """Add `--approval-wait`; *usual* is what holds if neither it nor a configuration says more."""
    parser.add_argument(
        "--approval-wait",
        type=pause,
        metavar="SECONDS",
        help=f"how long a call waits for an answer from elsewhere ({usual}), with --store",
    )


def check_approval_wait(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    """Refuse the option where no store is named, in which others would find the question."""
    if parsed.approval_wait is not None and parsed.store is None:
        parser.error("--approval-wait needs the store where questions are kept; add --store STORE")
