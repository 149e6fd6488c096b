"""The demo: a coding agent at work, with a bus between it and its tools."""

from toolbus.demo.demo import run_demo as run_demo
