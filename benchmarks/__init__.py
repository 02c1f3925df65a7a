"""What the journal and the engine cost, measured on the product's own code: `python -m benchmarks`."""
