"""A group of servers behind one proxy, which appear to the client as one server."""
