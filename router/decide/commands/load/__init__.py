"""`router bench load`: a load of requests for a router that runs, and what it took.

command        the options, the steps in their order
requests       what is sent: from a file of requests, or made of a payload; checked before the first
trial          what is asked of the router before: a policy of the run's own, and one request
loops          how it is sent: so many in flight, or so many a second
processes      where it is sent from: processes of their own, and what they tell their parent
tally          what they count: answers, errors by code, latencies; pure
report         what is shown of it
"""
