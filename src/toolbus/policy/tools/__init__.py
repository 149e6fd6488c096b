"""Tools for a person who writes a policy: check it, explain a verdict, try a table of calls."""
