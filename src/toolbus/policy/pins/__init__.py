"""Tools as a person accepted them."""
