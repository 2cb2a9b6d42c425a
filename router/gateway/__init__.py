"""The HTTP gateway: what stands between HTTP clients and the router, and the keys by which it knows them."""
