"""Changes of the tables from version to version. They run when the service starts."""
