"""How fast, how big, how steady: each file here that is listed in `__main__` is one question,
measured beside its yardsticks.

question   what is asked: sides, figures, targets          rounds   asks it: sides by turns, round
                                                           after round
plan       which, how often, about how long                 run      question after question, told
           and kept as it goes
process    a side as a process of its own, from outside     child    the same from inside
stretch    what a side measures of itself                   profiling  where its time goes
                                                            stalls     what holds its loop
document   what was found, as JSON, read again              report   as a table, as Markdown; plots
           draws it
sides/     the router and its yardsticks, as processes

Nothing of the product imports this package, and it reaches into the product by public names only.
"""
