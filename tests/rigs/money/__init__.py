"""The money matrix: hostile tenants, workers, clients and providers beside honest ones, and a
ledger that asks no router.

python -m tests.rigs.money                             every row (`make money`); --help lists them
python -m tests.rigs.money --rows one-id --requests 400
python -m tests.rigs.money --control fa1ac64b          the same rows on the code of another commit,
                                                       beside
python -m tests.rigs.money.streams                     10 000 streams, a tenth of them cut

    stage                 a server with deploy/nats, routers, a worker and the providers; what an
                          operator does
    operate               the operator's commands, run in the code that is tried
    provider worker       processes of ours that do the work, and write down what they did before
                          they tell it
    moves                 what a worker reports: the honest result, or each hostile one. Pure
    ledger                the file in which they write
    wire                  a connection with a role's key, which comes back by itself
    asking tricks         what honest clients ask, and each hostile one
    killing               routers, worker and server are killed meanwhile, in a seeded order
    rows                  the rows of the table
    events bill           usage events by a reader of its own; what a tenant owes, and what it was
                          billed. Pure
    run verdicts page     one run; whether each row holds; the page
    tokens streams        a tokenizer and texts of the stand-in; the run of streams

Nothing here reads or computes money by code of the router: the two are compared. Each process has
the login and the permissions that deploy/nats gives its role.
"""
