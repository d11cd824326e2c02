"""Time and error, compared with other packages."""
