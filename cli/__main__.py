"""`python -m tidewheel.cli`."""

from .main import main

main()
