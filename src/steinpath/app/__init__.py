"""The command line: reading and encoding tables, fits, reports, model files."""
