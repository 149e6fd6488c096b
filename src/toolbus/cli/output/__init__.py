"""Output of the commands: words, texts, values, histories and reports."""
