"""Tools to work in a folder with: its files, and a shell."""
