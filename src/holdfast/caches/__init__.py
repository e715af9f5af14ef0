"""The providers' cache rules as pure functions of values and time: one file per provider.

Prediction and simulator share them, so a rule exists once. Knows neither wire bytes, prices nor storage; imports
`canonical` and `facts`.
"""
