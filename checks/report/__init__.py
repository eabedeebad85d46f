"""Reports: pure functions of a ledger."""
