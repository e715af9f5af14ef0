"""`holdfast explain`: its options, its log reader and its tables."""
