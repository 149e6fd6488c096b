"""What a session did before, counted."""
