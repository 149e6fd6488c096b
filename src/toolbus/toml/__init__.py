"""Files of TOML: read, fitted to types, with the line of each mistake."""
