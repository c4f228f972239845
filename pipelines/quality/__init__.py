"""Quality by measuring: samples of a source, metrics between pictures, and what follows from them before a run."""
