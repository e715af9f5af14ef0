"""`holdfast replay`: its options, the choice of traces and its tables."""
