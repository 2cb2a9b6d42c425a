"""Every decoder of ours, fed with what was once a good message: `python -m tests.fuzz --inputs 1000000`.

mutants     a good message, damaged in a way that knows its structure
decoders    what is fed, with good messages to begin from, and the one kind of error that each may raise
feeding     one decoder and so many inputs: refused, accepted, slowest, and the first input that broke it
"""
