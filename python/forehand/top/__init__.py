"""`forehand top`: what a running server does, in a terminal, again and again.

Knows: how its pieces are put together. Does not know: the server's insides. `numbers.py` looks, `findings.py` says
what is wrong, `lines.py` has it as plain text, `screen.py` as a screen that takes keys (Textual, extra `top`).
"""
