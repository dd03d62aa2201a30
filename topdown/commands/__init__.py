"""The commands of `topdown`, one file each; imported only when called."""
