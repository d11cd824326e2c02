"""The recursion and its derivatives: paths, tangents, traces, compression in time."""
