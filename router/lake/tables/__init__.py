"""What the tables are: their columns, how a message becomes an event, how events become sums.

    schemas   the columns of every table;   arrow: the same as Arrow types
    body      one message's bytes as an event, or the reason why they are none; the limits of an
              event
    event     messages into typed events, and into reasons for the others; which events of a
              micro-batch count
    late      lateness, sealed days, and where an event of a sealed day is written
    gold      which figures an event counts in; partial sums, and how they are merged, without
              an overflow

The warehouse says where the files are and which count; the jobs say what runs when.
"""
