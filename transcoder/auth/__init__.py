"""Who calls: API keys and their tenants, what a key may do, signed links, request rates."""
