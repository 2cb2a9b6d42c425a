"""`router dlq`, `doctor`, `topology`, `audit`, `backup`, `restore` and `contract violations`."""
