"""TOML files: parsed, converted to types, with the line of each mistake."""
