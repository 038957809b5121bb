"""An ASGI application with uvicorn's workers, as many guides have it."""

import os
import sys

sys.stdout.write("this line is for a terminal and not for the page\n")
bind = "0.0.0.0:" + os.getenv("PORT", "8000")
workers = int(os.getenv("WEB_CONCURRENCY", 2))
worker_class = "uvicorn.workers.UvicornWorker"
timeout = 120
