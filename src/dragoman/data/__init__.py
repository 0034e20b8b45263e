"""From files to batches: rows, text units, fields and batches. Nothing here imports a network."""
