"""Start, queue and supervise runs: launch, slots, queue, runner, cost. Imports store and below; the runner's process
needs only the standard library."""
