"""What every layer uses: array helpers, checks of arguments, progress, files."""
