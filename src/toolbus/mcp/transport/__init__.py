"""Transports of frames: pipes, server processes and remote servers over HTTP."""
