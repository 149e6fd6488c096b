"""An engine in one process, whose journal may be a file: for development and tests."""
