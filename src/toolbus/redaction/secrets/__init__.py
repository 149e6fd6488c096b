"""Credentials in texts: how they are found, what stands in their place, and how they come back."""
