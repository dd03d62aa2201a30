"""What was spent, durably: the ledger of a data set, and the order of steps that no crash turns into a second spend."""
