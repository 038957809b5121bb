"""The verbs of `forehand lab`, a file each: `arguments(parser)` and `act(asked)`, which gives the exit status."""
