"""Data sets, methods and measuring that benchmarks share."""
