"""The components that we ship, one file each; each works by name in a `toolbus.toml`."""
