"""One node or many: databases, leases, leadership, news between nodes."""
