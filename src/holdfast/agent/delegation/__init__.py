"""How sub-agents are put to work: which one goes first (`prefix_warmup`), their prompts and reports (`texts`), and all
of one session's together (`crew`)."""
