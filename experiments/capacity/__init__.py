"""What one node can carry: load in steps until p95 passes its limit (PCRAFT section V.B)."""
