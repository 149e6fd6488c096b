"""Shortening: a text or a JSON value made to fit, and what was left out kept aside to be read."""
