"""Data for demonstrations, made on the spot: nothing to download, nothing to license."""
