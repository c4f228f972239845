"""Connections on a user's behalf, through the guard of addresses; and bounds on those that come in."""
