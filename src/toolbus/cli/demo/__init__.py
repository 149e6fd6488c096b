"""The demo: a coding agent at work, with a bus between it and its tools."""

from toolbus.cli.demo.demo_command import command as command
