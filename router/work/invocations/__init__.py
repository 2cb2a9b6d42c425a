"""Invocations of providers: each attempt is recorded before its call, and metered after it."""
