"""Everyday programs and their effects, as data."""
