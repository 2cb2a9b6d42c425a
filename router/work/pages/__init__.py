"""The pages of assignments and workers."""
