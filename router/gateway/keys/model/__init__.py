"""What decides of keys: whose a key is, how often one may be guessed, and how often it may ask."""
