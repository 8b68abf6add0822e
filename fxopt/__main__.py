"""``python -m fxopt``: the command `fxopt`."""

from fxopt.ui.command import main

main()
