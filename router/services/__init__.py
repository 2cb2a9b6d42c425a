"""Services of one domain each, which may import deciding and moving rooms. `app` makes them and connects them.

A policy, an extension or the state of a breaker lives in a bucket (moving), and rules read it (deciding): its store and its live copy
are here.
"""
