"""The Model Context Protocol: tools of servers, and the proxy in front of any server."""
