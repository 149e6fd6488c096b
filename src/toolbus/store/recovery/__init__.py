"""Damaged SQLite files: what is wrong with one, and a new file with all that can be read."""
