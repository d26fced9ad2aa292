"""Which design to take: chances of being best, values that are known already, and what to solve next."""
