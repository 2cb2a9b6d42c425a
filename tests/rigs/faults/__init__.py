"""The fault suite: the whole circle under load while its parts are killed, paused, starved, cut off
and misled; then a ledger.

python -m tests.rigs.faults --minutes 5 --seed 7      the suite (`make faults`); --help lists the
                                                      rest
python -m tests.rigs.faults.report A.json B.json      several of its runs (--json) as one page
python -m tests.rigs.faults --cluster 3               the suite on three servers (`make faults
                                                      CLUSTER=3`): `cluster`
python -m tests.rigs.faults.soak --minutes 30         the circle without faults: does anything grow?
                                                      (`make soak`)
python -m tests.rigs.faults.idle --instances 50       what idle routers cost a server

    stage child               a server, routers, workers, an extension, each behind a proxy of its
                              own (tests/support)
    load                      requests asked and asked again until they are answered; some poisoned,
                              some hopeless
    kinds injector            what each fault does and how it ends; which comes when, from a seed
    quiet gathered ledger     all is over; what is there; sent, answered, assigned, executed,
                              metered, dead letters: by ids
    recovery report           how long until all was well again; the tables
    slope vitals soak         a line through what may not grow

The processes are the real commands: `clocked` lets their clocks be stepped, `job` is the workers'
and the extensions' work, `hasty_router` is the control, which does lose.
"""
