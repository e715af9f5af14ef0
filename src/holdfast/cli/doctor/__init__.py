"""`holdfast doctor`: checks of this machine, the network and the dates of facts."""
