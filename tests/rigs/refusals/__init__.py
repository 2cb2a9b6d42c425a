"""The matrix of refusals: what a stream or a bucket refuses must stop only the message concerned.

stages         the kinds of processes, each with its stores and the message that needs each: the
               bus, agents, the inbox
router_stage   the same of a router, whole or of one partition
work_stages    the same of a worker and a relay
matrix         one cell: a stage, a store, a refusal
page           the table
"""
