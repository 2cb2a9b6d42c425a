"""Wire shapes: the fields of each message, how they are read and written. No I/O, no rule of any
room.
"""
