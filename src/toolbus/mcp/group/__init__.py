"""Several servers behind one proxy: to a client they are one."""
