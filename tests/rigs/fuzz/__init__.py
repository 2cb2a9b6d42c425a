"""Every decoder of ours, fed with what was once a good message: `python -m tests.rigs.fuzz --inputs
1000000`.

mutants     a good message, damaged in a way that knows its structure
decoders    what is fed, with good messages to begin from, and the one kind of error that each may
            raise
hostile     legal messages, or nearly, with everything in them at its extremes
contracts   the handlers of every contract, joined without a broker; lake: the usage tables
hostile_run both of these fed with those: nothing raises, no process grows, no ingest stops
feeding     one decoder and so many inputs: refused, accepted, slowest, and the first input that
            broke it
"""
