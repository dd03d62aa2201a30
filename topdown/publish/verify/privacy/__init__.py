"""What a release can say of privacy, derived anew from its plans, its public files and its ledger."""
