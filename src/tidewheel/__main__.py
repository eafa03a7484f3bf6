"""`python -m tidewheel`."""

from .cli.main import main

main()
