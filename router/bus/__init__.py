"""SOLVER-Ralph message contracts on JetStream: a typed envelope, published and consumed."""
