"""Estimates of the out-of-sample risk of every iterate, and diagnostics."""
