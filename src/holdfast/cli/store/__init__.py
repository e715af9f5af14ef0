"""`holdfast store`: one file per subcommand."""
