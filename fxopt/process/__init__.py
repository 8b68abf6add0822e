"""State of the whole process that work on graphs touches: patched calls, modes, the garbage collector, news."""
