"""Attack sets, played past the flow rules of the starting policy and past a scanner of phrases."""
