"""Partitions of the decide subject: their leases, and how many requests of each wait."""
