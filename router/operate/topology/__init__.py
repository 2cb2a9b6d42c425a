"""Streams, consumers and buckets: what the settings declare, and how far the server differs."""
