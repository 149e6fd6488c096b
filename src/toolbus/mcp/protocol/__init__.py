"""JSON-RPC and the revisions of MCP: frames in one form that every reader reads alike."""
