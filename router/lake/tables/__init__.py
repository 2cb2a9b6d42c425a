"""What the tables are: their columns, how a message becomes an event, how events become sums.

    schemas   the columns of every table;   arrow: the same as Arrow has them
    event     from messages to typed events, or to the reasons why they are none
    dedupe    which events of a micro-batch count
    late      lateness, sealed days, and where an event of a sealed day is written
    gold      partial sums, and their merging

Where the files lie and which of them count is the warehouse's; what runs when is the jobs'.
"""
