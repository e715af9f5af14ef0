"""Our models of other tools beside what these tools send."""
