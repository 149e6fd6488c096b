"""OAuth in front of a server at an address, and the person's own login."""
