"""The programs of `bench_durable`: workers of toolbus, and of the engine alone."""
