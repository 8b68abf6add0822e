"""Changes of a graph module as data: primitive edits with inverses, snapshots, and the edits between two of them."""
