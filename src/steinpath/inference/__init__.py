"""Intervals with a stated coverage."""
