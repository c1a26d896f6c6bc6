"""Which trial runs when and where: executors, workers, the runner, retries, interrupts and progress."""
