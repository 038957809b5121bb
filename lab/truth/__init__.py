"""Known faults, planted, that the lab has to find exactly: `forehand lab selftest` runs them."""
