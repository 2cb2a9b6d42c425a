"""What the gateway decides: how requests are read, what errors are, who may try again. Pure."""
