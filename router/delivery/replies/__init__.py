"""Who asked, and how the answer reaches them."""
