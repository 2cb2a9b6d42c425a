"""The shape of each message, published: JSON Schema made of the constants that its reader or writer
uses.

`operate.catalogue` lists them all.
"""
