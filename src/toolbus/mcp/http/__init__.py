"""The proxy as an HTTP server: a front for access control, and a relay or bridge behind it."""
