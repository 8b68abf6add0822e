"""Questions asked of a graph module. Nothing here changes one."""
