"""Samples to copy: agents, extensions, a service that handles events, and the pages for their
authors.
"""
