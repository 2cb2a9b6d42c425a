"""The whole router as a process: `router serve`.

    app_context          the objects that all consumers of a process share
    subscriptions        each subscription, joined with its handler
    supervision_tree     which children there are, and in which order
    service              start, state, end; `fleet`: several processes under one parent
    contract             the published contract: AsyncAPI, pages, `router contract`

It joins all rooms and decides nothing.
"""
