"""Hosts: other people's programs that the handlers live in; one package for each."""
