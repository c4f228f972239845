"""Child processes: the fork server, the sandbox, what a child is asked to do, and watching it."""
