"""One file for each system that asks a person, with a class `System`."""
