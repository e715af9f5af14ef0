"""How sub-agents are put to work: who goes first (`holding`), what they are told and what is told of them (`texts`),
one of them at work (`working`), and all of one session's together (`crew`)."""
