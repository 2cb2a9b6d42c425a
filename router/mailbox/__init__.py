"""SDS-047: the transactional outbox and inbox on PostgreSQL.

    service ──commit── outbox_events ──relay──> {context}.event.> ──consumer──> inbox_messages ──handler── service

What a service commits is published, in the order of its aggregate; what it receives is handled once, whatever dies between.
Both halves stand on `entities`, `policies`, `ports` and `postgres`; the halves, `outbox` and `inbox`, know nothing of each other.
What a service imports is `router.outbox`; nothing is imported by importing this room.
"""
