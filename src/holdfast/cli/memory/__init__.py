"""`holdfast memory`: one file per subcommand."""
