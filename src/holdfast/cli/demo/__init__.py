"""`holdfast demo`: its options and its table."""
