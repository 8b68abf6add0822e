"""``python -m fxopt``: the command `fxopt`."""

from fxopt_cli.main import main

main()
