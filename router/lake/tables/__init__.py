"""What the tables are: their columns, how a message becomes an event, how events become sums.

    schemas   the columns of every table;   arrow: the same as Arrow has them
    body      one message's bytes as an event, or why they are none; what an event may say
    event     from messages to typed events, or to the reasons why they are none
    dedupe    which events of a micro-batch count
    late      lateness, sealed days, and where an event of a sealed day is written
    gold      partial sums, and their merging;   wide: sums that do not wrap

Where the files lie and which of them count is the warehouse's; what runs when is the jobs'.
"""
