"""SDS-047: the transactional outbox and inbox on PostgreSQL.

    service ──commit── outbox_events ──relay──> {context}.event.> ──consumer──> inbox_messages ──handler── service

The relay publishes what a service commits, in the order of its aggregate. The inbox handles each
received message once, whichever process dies in between. Both halves use `entities`, `policies`,
`ports` and `postgres`; `outbox` and `inbox` do not know each other. A service imports
`router.sdk.outbox`. Importing this package imports nothing else.
"""
