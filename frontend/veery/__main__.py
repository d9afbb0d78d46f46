"""`python -m veery`: the command line."""

import sys

from veery._cli import main

if __name__ == "__main__":
    sys.exit(main())
