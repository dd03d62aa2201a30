"""The commands of `topdown`; imported only when called."""
