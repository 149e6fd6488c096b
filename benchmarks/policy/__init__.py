"""Commands that others labelled, and what is made of them."""
