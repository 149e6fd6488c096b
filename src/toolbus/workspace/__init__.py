"""Tools for work in a folder: file tools and a shell."""
