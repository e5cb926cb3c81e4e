"""Who carries runs out: launch, slots, queue, runner, cost. Imports store and below; the runner's process needs the
standard library alone."""
