"""`python -m forehand_lab`: the same as `forehand lab`."""

import sys

from forehand_lab.cli import main

sys.exit(main())
