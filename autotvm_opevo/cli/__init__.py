"""The command line, one command a file: thin shells over the public functions."""
