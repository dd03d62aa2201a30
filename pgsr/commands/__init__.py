"""One command a file; imported only when called."""
