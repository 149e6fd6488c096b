"""Files that people write: TOML with lines, the nearest word, Python by its path."""
