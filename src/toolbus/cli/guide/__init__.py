"""The guide: its pages, and their layout on a terminal."""

from toolbus.cli.guide.pages import command as command
