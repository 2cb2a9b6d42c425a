"""The neighbour matrix: what a quiet tenant feels while another one does its worst.

python -m tests.rigs.neighbours --control a551f3a     every row, beside the same rows on the code of
                                                      another commit (`make neighbours`)
python -m tests.rigs.neighbours --only flood          one row; --help lists them
python -m tests.rigs.neighbours.overload              one tenant at three times the capacity for a
                                                      minute

    stage tree          `router serve --embedded`, with its policies and extensions; the code it
                        runs, here or of another commit
    part play           a process of ours: from outside, and from inside
    wire load           a NATS connection that costs little; messages sent at a rate, and their
                        answers counted
    quiet               the quiet tenant: 20 requests a second, each timed from the moment it was
                        due
    asking neighbour    its requests and the neighbour's; what each neighbour does
    services putter     extensions that hang, are late or answer; a provider that trickles; a policy
                        put again and again
    rows row            the rows of the table; one row from its start to its end
    figures result      from records to figures; what is kept of a row
    verdicts page       whether the promises were kept; the page
    overload            the minute of overload

Every process is one of ours, started in a session of its own and ended by its own id. All processes
read the same steady clock, so that moments of one can be compared with those of another.
"""
