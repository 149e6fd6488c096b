"""Programs that the benchmark of the proxy starts: a server, a forwarder, and handlers."""
