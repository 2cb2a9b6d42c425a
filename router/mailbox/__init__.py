"""SDS-047: the transactional outbox and inbox on PostgreSQL."""
