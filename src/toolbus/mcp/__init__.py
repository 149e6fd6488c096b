"""The Model Context Protocol: the client's tools, and the proxy in front of any server."""
