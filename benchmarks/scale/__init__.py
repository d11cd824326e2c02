"""Data on disk, on a device, on a cluster."""
