"""What operators see and do, of every feature.

dead_letters, violations, audit   what failed, who broke the contract, who wrote what
doctor, topology, recovery        is the broker fit, does it have what is declared, copies of its
                                  streams
alerts                            what a person should know now
event_reader                      the events of a stream since a time, filtered
admin                             operators' services: request-reply, found by the NATS service
                                  protocol
catalogue                         the shape of every published message
commands, pages                   what operators type and see
"""
