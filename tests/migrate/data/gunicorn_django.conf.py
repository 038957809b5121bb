"""What a small Django site has: sync workers on a unix socket, TLS and StatsD from an older life."""

bind = ["unix:///run/site/gunicorn.sock", "127.0.0.1:8001"]
workers = 3
timeout = 90
keepalive = 2
worker_connections = 1000
accesslog = "/var/log/site/access.log"
errorlog = "-"
certfile = "/etc/ssl/site.crt"
keyfile = "/etc/ssl/site.key"
statsd_host = "localhost:8125"
proxy_protocol = False
secure_scheme_headers = {"X-FORWARDED-PROTO": "https"}
logconfig_dict = {"version": 1, "handlers": {"console": {"class": "logging.StreamHandler"}}}
chdir = "/srv/site"
wsgi_app = "site.wsgi:application"
permit_obsolete_folding = True
reload = False
spew = False
limit_request_line = 0
