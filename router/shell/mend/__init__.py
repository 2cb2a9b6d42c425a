"""The frame of what a console writes. Each feature has its writes in a file `mend`.

frame   a form that came: whose it is, may they write, what the next page says; its audit event
runs    replays and discards, one at a time, with progress and a stop
"""
