"""What a run leaves: request records, telemetry, manifest, and the figures computed of them."""
