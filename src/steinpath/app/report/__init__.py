"""The report: one self-contained HTML page that loads nothing from a network."""
