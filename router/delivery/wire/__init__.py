"""The wire: sockets, frames, the connection, and what the server's API answers."""
