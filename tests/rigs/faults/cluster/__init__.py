"""The fault suite on a cluster of three servers: the same load and ledger, the faults of a cluster.

python -m tests.rigs.faults --cluster 3 --rounds 3 --rate 100    (`make faults CLUSTER=3`); --help lists the rest

    servers routes            three servers; each route passes a proxy
    stage                     the processes of `tests.rigs.faults`, each with a way to each server
    groups elections          who leads which stream, bucket, durable and the cluster; when a new
                              leader came
    leaders cuts storms       what each fault does: to one server, to the network around it, to many
                              at once,
    processes kinds           to a server and a process of ours; all kinds by name
    acks                      what the servers acknowledged: who has lost what is lost
    run recovery report       one run; what each fault cost; the table
    held_up                   which step held the latest usage events up
    lateness                  how late the suite itself was: routes and connections pass it
    command                   its options
"""
