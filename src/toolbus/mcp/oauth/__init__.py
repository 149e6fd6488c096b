"""OAuth for remote servers: through a relay, and by the user's own login."""
