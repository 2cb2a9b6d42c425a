"""Wire shapes: what stands in a message, how it is read and written. No I/O, no rule of any room."""
