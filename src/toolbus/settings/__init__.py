"""Basics for every room: private files, the user's keys, hints in errors, text for display."""
