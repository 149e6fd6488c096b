"""The guide: a page a topic, and its layout."""

from toolbus.cli.guide.pages import command as command
