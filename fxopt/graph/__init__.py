"""Questions asked of a graph module. All code here only reads."""
