"""The demo: a coding agent at work, with a bus between it and its tools."""

from toolbus.cli.demo.demo_command import command as command
from toolbus.cli.demo.scenes import run_demo as run_demo
