"""The command line, one command a file: each parses its arguments and calls a public function."""
