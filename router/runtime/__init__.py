"""MeshForge agents: effects that happen exactly once, on a SQLite event store."""
