"""HTTP/1.1: a server and a client on h11, from the extra `http`."""
