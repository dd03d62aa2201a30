"""Tables in a database or an Arrow file: opened for reading only, a batch at a time."""
