"""The published contract of a router: every subject with its messages, checked, compared and shown."""
