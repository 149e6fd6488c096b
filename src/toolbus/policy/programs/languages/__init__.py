"""Arguments that are a language of their own."""
