"""``python -m fxopt_cli``: the command, without the import of torch that ``python -m fxopt`` needs."""

from fxopt_cli.main import main

main()
