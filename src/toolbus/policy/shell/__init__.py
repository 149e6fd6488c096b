"""What a shell command runs, read from its syntax tree."""
