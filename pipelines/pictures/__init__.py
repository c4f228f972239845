"""Pictures of a film: stills, sheets, posters and short animations, from the same decode as everything else."""
