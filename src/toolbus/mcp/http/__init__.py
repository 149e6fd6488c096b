"""The proxy as an HTTP server: a front that lets clients in, and a relay or a bridge behind it."""
