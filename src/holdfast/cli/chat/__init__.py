"""`holdfast chat`: an agent in the terminal or in a pipe."""
