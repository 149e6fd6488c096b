"""The command `toolbus`: one file for each of its commands."""

from toolbus.cli.command_line import main as main
