"""Try a whole release before anything is spent."""
