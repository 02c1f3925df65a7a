"""Real models on this machine, over the demo's tool servers: `make test-local-model`."""
