"""The console with a thousand times its data in a real browser, and its memory under live updating:
two commands, one page.

python -m tests.console.measure pages   --write FILE    some minutes
python -m tests.console.measure memory  --write FILE    an hour

stage    a broker, a router, the console as a process of its own, and requests
pages    when each page is painted and whole, by the browser's own clock
memory   what the console holds while browsers look at it
page     the pages that say so
"""
