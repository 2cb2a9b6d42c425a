"""The frame of what a console writes: its form, its run, its audit event. Each feature has its writes in a file `mend`."""
