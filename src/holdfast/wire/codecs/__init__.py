"""Canonical values to and from each dialect's JSON. No offsets, no markers to keep: those belong to the dialects."""
