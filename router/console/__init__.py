"""Pages that show what a router does, who is hurt, and which command mends it. They read; `mend`
writes, where that is set.

    browser ── guard ──> application ──> a page ──> Knowledge ──> the functions that the commands read by
                              └── /live ──> page_feed ◄── sampler ◄── /metrics of the routers, alerts, infos of consumers

`router console` runs it as a process of its own, with a role of its own (deploy/nats). A page reads
by the functions of the commands: `slow_pages` keeps the last answer of each, so that a page says
what it knew, and when, while the broker is unavailable.

    mend          the addresses and pages of what is written
    application   which requests are answered at all; addresses, exports, errors
    page_feed     the page Now for browsers that stay: bounded, and slow ones are dropped
    static        style, script and the two libraries, as files of this package

In `router.shell`:

    access        who may see and write: users, sessions, forms
    pages         every page, in the order of the navigation; a page stands in its feature, in a
                  file `page` or a folder `pages`
    table         sorting, filters and bounds of a table by its address; CSV and JSON
    sampler       figures of all routers while a page Now is looked at (`scrape` reads and
                  computes them)
    rendering     templates; every text from outside is shown as text

Not here: any decision about what is wrong (that is `operate.doctor`), any code on the way of a
message.
"""

from router.console.server import ConsoleServer

__all__ = ["ConsoleServer"]
