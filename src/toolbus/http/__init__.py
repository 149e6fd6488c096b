"""HTTP/1.1 for all that speaks it: a server and a client on h11, the extra `http`."""
