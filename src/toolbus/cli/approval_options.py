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
