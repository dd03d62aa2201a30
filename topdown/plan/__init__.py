"""From a run file to a plan; opens public files only."""
