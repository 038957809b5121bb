"""The lab: measures Python servers under the same load and draws the result.

Knows a server by its `contestant.toml` and a socket, never by its code: nothing here imports Forehand.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent
# The shape of a record. A view reads records of this number only.
FORMAT = 1
