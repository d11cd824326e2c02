"""Cost of algorithms and of the command, and its growth with the size of the data."""
