"""Changes of a graph module as data: primitive changes with inverses, snapshots, and the difference of two."""
