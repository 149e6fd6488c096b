"""The options that name a model, for each command that asks one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.cli.parsing import Parser

MODEL = "TOOLBUS_MODEL"
"""The variable with the model's name."""


def add_model_options(parser: Parser) -> None:
    """Let *parser* take a model, and where it is asked with which key."""
    parser.add_argument("--model", metavar="MODEL", help="PROVIDER:NAME, or replay:FILE")
    parser.add_argument("--base-url", metavar="URL", help="ask the model at this address")
    parser.add_argument(
        "--key-env",
        metavar="VARIABLE",
        help="the variable with the key; that of the provider goes to no --base-url unnamed",
    )
