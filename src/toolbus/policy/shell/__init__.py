"""The commands that a shell text runs, from its syntax tree."""
