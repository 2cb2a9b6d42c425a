"""Prices in their bucket, followed by each process; learned ratios, shared between instances;
`router price`.
"""
