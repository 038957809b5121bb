"""Caddy as caddysnake's wheel brings it, with a Caddyfile: its own command cannot be given a certificate."""

import os
import sys

import caddysnake_cli

program = os.path.join(os.path.dirname(caddysnake_cli.__file__), "caddysnake-cli")
os.execv(program, [program, "run", "--adapter", "caddyfile", "--config", sys.argv[1]])
