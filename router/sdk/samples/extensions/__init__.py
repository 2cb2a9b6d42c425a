"""Sample extensions: each is one file that can be served, tried, tested and copied.

router extension serve-samples                                      all of them
router extension try router/sdk/samples/extensions/pii_guard.py:pii_guard --payload '"a@b.example"'
"""
