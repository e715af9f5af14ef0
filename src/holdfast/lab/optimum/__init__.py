"""The least a lane's input can cost under Anthropic's rules, for one who knows the future."""
