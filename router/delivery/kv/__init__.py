"""Documents that many instances read while they run: where they come from and how a change arrives."""
