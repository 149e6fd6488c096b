"""JSON-RPC frames in their canonical form, and the revisions of MCP."""
