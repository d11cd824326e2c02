"""Estimates of risk and intervals, compared with the truth."""
