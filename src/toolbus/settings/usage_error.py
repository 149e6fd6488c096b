"""The error of a command that cannot do as asked."""


class UsageError(Exception):
    """A command cannot do as asked; the text is one line for the person at the command line."""
