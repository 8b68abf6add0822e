"""The command ``fxopt``: every act of the page from a shell.

It is a package beside `fxopt`, because an import of any part of `fxopt` imports torch, which takes seconds. Help,
completion and wrong options are answered without it.
"""
