"""Pipes, processes and HTTP: the ways on which frames come and go."""
