"""Records of a run: requests, telemetry, manifest, and the figures computed of them."""
