"""The installation of our hooks in the files of a host, and the way back."""
