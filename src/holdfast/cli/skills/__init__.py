"""`holdfast skills`: one file per subcommand."""
