"""A Flask shop behind nginx: threads, recycling, an access log with the time a request took."""

import multiprocessing
import os

host = os.environ.get("SHOP_HOST", "0.0.0.0")
port = os.environ.get("SHOP_PORT", "8080")
bind = f"{host}:{port}"
backlog = 2048

workers = int(os.environ.get("SHOP_WORKERS", min(multiprocessing.cpu_count() * 2 + 1, 8)))
worker_class = "gthread"
threads = int(os.environ.get("SHOP_THREADS", "8"))
worker_connections = 1000
timeout = 300
graceful_timeout = 60
keepalive = 5

max_requests = 10000
max_requests_jitter = 1000
preload_app = True
reuse_port = True

accesslog = "-"
errorlog = "/var/log/shop/error.log"
loglevel = "WARNING"
capture_output = True
access_log_format = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" %(D)s'

proc_name = "shop"
worker_tmp_dir = "/dev/shm"
limit_request_line = 4094
limit_request_fields = 200
limit_request_field_size = 8190
forwarded_allow_ips = "10.0.0.0/8, 127.0.0.1"
raw_env = ["SHOP_MODE=production", "TZ=UTC"]
pidfile = "/run/shop/shop.pid"
user = "www-data"
group = "www-data"
umask = 0o027
daemon = False
max_request = 5


def post_fork(server, worker):
    """Connections that were open before the fork are not to be shared."""
    from shop.database import engine

    engine.dispose()


def pre_fork(server, worker):
    pass


def when_ready(server):
    server.log.info("ready")


def worker_abort(worker):
    worker.log.warning("aborted")
