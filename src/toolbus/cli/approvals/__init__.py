"""`toolbus approvals`: its arguments, and the bodies of its subcommands."""

from toolbus.cli.approvals.arguments import command as command
