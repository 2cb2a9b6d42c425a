"""What each dashboard shows: one file a board."""
