"""The matrix of refusals: what a stream or a bucket refuses for good must stop only the message concerned.

refusals   what an operator can do to a stream, and its end
stages     the kinds of processes, each with the stores of its effects and the message that needs each
matrix     one cell: a stage, a store, a refusal
page       the table
"""
