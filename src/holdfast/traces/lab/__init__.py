"""The lab: recorded sessions replayed under any strategy, with the real engine against the cache rules, on a virtual
clock; beside them what other tools would have sent, and the optimum.
"""
