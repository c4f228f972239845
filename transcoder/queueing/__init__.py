"""Which waiting task gets which slot: queues, shares, costs, deadlines."""
