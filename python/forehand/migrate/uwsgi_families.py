"""uWSGI's options by family: of its nine hundred most belong to something that has no counterpart here.

Knows: beginnings of names, and the reason for all that begin so. Does not know: single options (`uwsgi.py`).
"""

from __future__ import annotations

TLS = "not taken over: write https:// before an address in bind, and name tls_cert and tls_key (docs/tls.md)"
STATS = (
    "`forehand status` (--json) and `forehand top` show what uwsgitop would; status_bind answers /metrics and "
    "/status.json over HTTP (docs/looking-inside.md)"
)
STATIC = "folders are served by `static` (docs/static-files.md), which has no such word"
INSIDE = "there is no module `uwsgi` to import here: what the application uses of it has to be replaced"
SYSTEMD = "systemd does this: deploy/forehand.service"
PROTOCOL = (
    "HTTP, uwsgi, FastCGI and SCGI are spoken, and not this protocol: nginx needs `proxy_pass`, or `uwsgi_pass` and an "
    "address with `uwsgi:` before it (docs/behind-nginx.md)"
)

# Beginnings of names; with an equals sign the whole name. The longest that fits decides.
FAMILIES: tuple[tuple[str, str], ...] = (
    (
        """
        carbon nagios rrdtool
        """,
        "this protocol of metrics is not spoken: statsd_host sends to statsd, and status_bind answers Prometheus "
        "(docs/looking-inside.md)",
    ),
    (
        """
        ping= ping-
        """,
        "it asks another uWSGI: `forehand status` asks a running server",
    ),
    (
        """
        rsyslog
        """,
        "log_syslog sends all lines to log_syslog_to, with log_syslog_prefix and the time as syslog has it",
    ),
    (
        """
        symcall symimporter
        """,
        "only Python applications are called, no functions in C",
    ),
    (
        """
        cgi
        """,
        "CGI programs are not run; a WSGI or ASGI application is",
    ),
    (
        """
        ugreen
        """,
        "requests run in threads, or with worker_class gevent in greenlets",
    ),
    (
        """
        ssl https sni suwsgi http-to-https
        """,
        TLS,
    ),
    (
        """
        static- check-static file-serve fileserve mime honour-range
        """,
        STATIC,
    ),
    (
        """
        cache add-cache check-cache load-file-in-cache queue= queue- sharedarea spooler mule mules farm timer=
        rbtimer signal= signal- signals- lock= lock- locks rpc metric enable-metrics alarm snmp websocket
        declare-option jailed
        python-worker-override worker-exec collect-header pull-header touch-signal touch-mules
        touch-spoolers fs-signal ftok upload-progress reload-on-exception exception-handler legion
        subscri unsubscribe multicast auto-weight weight=
        """,
        INSIDE,
    ),
    (
        """
        cron unique-
        """,
        "use a systemd timer or a task queue",
    ),
    (
        """
        stats memory-report
        """,
        STATS,
    ),
    (
        """
        cheap idle= die-on-idle
        """,
        "as many workers run as `workers` says; `forehand workers +1` adds one",
    ),
    (
        """
        emperor vassal imperial zerg early-emperor heartbeat
        """,
        "each application has a forehand.toml and a service of its own",
    ),
    (
        """
        attach- smart-attach exec- hook- call- daemons- after-request wait- notify-socket
        """,
        "commands become ExecStartPre= or services of their own; Python code goes to on_start and the other hooks",
    ),
    (
        """
        route error-route final-route response- error-page rewrite del-header rem-header inject- vhost
        ignore-script-name
        """,
        "there is no routing language: a proxy's work, or a WSGI middleware's",
    ),
    (
        """
        touch- fs-reload fs-brutal propagate-touch reload-on-fd brutal-reload
        """,
        "`forehand reload` or SIGHUP reloads; `reload` watches files while developing",
    ),
    (
        """
        cap= cgroup ns= ns- namespace setns unshare pivot mount- umount- chroot exec-in ksm never-swap
        add-gid no-initgroups immediate- flock refork re-fork worker-mount fork privileged unprivileged
        reaper persistent-ipc freebind tcp-fast socket- so-
        """,
        SYSTEMD,
    ),
    (
        """
        log= log- logformat logger loggers req-log alarm not-log not-alarm
        """,
        "the log has one format and one place: log_level, log_file",
    ),
    (
        """
        http- fastrouter rawrouter sslrouter forkpty raw- uwsgi-
        """,
        "there is no router in front of the workers: a proxy connects to them directly",
    ),
    (
        """
        fastcgi scgi puwsgi udp= shared-socket undeferred map-socket abstract protocol socket-protocol
        """,
        PROTOCOL,
    ),
    (
        """
        paste ini-paste pecan web3= wsgi-lite pump= eval= pyrun pyshell pymodule post-pymodule perl psgi
        rack ruby lua php gevent asyncio greenlet loop= loop- loops-
        """,
        "name the module that has the WSGI application as the target",
    ),
    (
        """
        py= py- pyargv pyimport python- shared-py shared-import shared-python spooler-py import= python=
        """,
        "on_start and on_worker_start run Python code; the interpreter is the one that runs forehand",
    ),
    (
        """
        procname
        """,
        "process_name names the processes",
    ),
    (
        """
        enable-proxy-protocol http-enable-proxy
        """,
        "add ?proxy=v1 to the end of the address that a load balancer connects to (docs/behind-haproxy.md)",
    ),
    (
        """
        help= usage= version= reload= stop= pause= suspend= resume= connect-and-read extract=
        build-plugin cflags= dot-h= dump-options show-config test= no-server command-mode file-write
        iprint= print-sym exit= start= start-un st= get= mode= resolve= plugin-list plugins-list
        """,
        "this is a command of uWSGI, not a setting",
    ),
    (
        """
        thread-stack threads-stack
        """,
        "threads have the system's stack size: ulimit -s",
    ),
    (
        """
        envdir early-envdir unenv reload-os-env
        """,
        "EnvironmentFile= of systemd, or `env` in the TOML",
    ),
    (
        """
        skip-atexit no-threads-wait use-abort segfault-alarm backtrace-depth
        """,
        "a worker ends as any Python program does; PYTHONFAULTHANDLER=1 switches faulthandler on",
    ),
    (
        """
        allowed-modifiers remap-modifier backlog-alarm listen-queue lq-alarm binary- binsh= blacklist
        whitelist end-blacklist end-whitelist body-read check-interval check-mount mountpoint-check
        clock= clock- clocks- config-py close-on-exec dlopen= drop-after fallback-config fd-safe safe-fd force-
        harakiri-no honour-stdin js= master-as-root max-apps max-vars mem-collector need-plugin
        no-default-app no-fd-passing no-harakiri no-site offload-thread optimize= pcre-jit profiler=
        shutdown-sockets skip-zero wsgi-accept wsgi-strict
        """,
        "it configures a part of uWSGI that does not exist here",
    ),
    (
        """
        chunked-input
        """,
        "bodies are received before a thread is taken, chunked ones too",
    ),
)
PREFIXES = {prefix: reason for prefixes, reason in FAMILIES for prefix in prefixes.split()}


def reason(name: str) -> str:
    """Why an option of this name has no counterpart; nothing for a name that is not known."""
    fitting = [
        prefix for prefix in PREFIXES if (name == prefix[:-1] if prefix.endswith("=") else name.startswith(prefix))
    ]
    return PREFIXES[max(fitting, key=len)] if fitting else ""
