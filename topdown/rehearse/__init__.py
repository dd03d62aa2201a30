"""Try a whole release before anything is spent."""

FOLDER = ".rehearsal"  # inside the release folder, gone before anything is measured
JOURNAL = "0" * 32  # of a measurement that never was
