"""Makes `tests` importable from every test, so that they share `tests.shapes`."""
