"""What `holdfast demo` shows: one coding session, sent by a careless client through a real gateway, and done by
Holdfast's own agent, against the simulator. May import everything but the commands.
"""
