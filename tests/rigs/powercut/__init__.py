"""A power cut: a server's store goes back to what its disk had, under load; then a ledger of what was
acknowledged.

python -m tests.rigs.powercut                         every row, some twenty minutes (`make
                                                      powercut`); --help lists the rest
python -m tests.rigs.powercut --rows default          one row

    disk                      a real ext4 that loses at the cut what no fsync has brought to the disk
    server                    a nats-server on such a disk, whose fsyncs take longer
    writer                    the disk's own trial: a program that syncs what it says, and one that
                              does not
    rows                      what is tried: settings, fsyncs, servers, and the controls
    stage                     one server or three, a router and a worker
    run                       load, cut, restart, again; then the ledger of tests.rigs.faults
    page                      the table

It needs root, loop devices and ext4, and strace for the longer fsyncs. `disk.find_obstacle` says what
is missing.
"""
