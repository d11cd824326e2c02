"""Helpers used by every layer: arrays, argument checks, progress, files."""
