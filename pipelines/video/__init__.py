"""Pictures from decoder to encoder: colours, tone mapping, what is laid over them, and the threads that do it."""
