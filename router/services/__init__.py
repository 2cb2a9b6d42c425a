"""Services of one domain each, which need both meaning and motion: they may import both. `app` makes them and connects them.

A policy, an extension or the state of a breaker lives in a bucket (motion), and rules read it (meaning): its store and its live copy
are here.
"""
