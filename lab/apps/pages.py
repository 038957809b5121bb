"""Pages of the sizes that articles C and E measured: a file by two ways, a page that is made, and larger ones."""

import os
import tempfile

SIZES = {"/static": 41148, "/static-read": 41148, "/400k": 409600, "/profile": 22336}
PAGE = 39107
LINE = b"The quick brown fox jumps over the lazy dog, and the server counts its feet.\n"


def content(path):
    """The bytes of a page that does not change."""
    size = SIZES[path]
    return (LINE * (size // len(LINE) + 1))[:size]


def page():
    """39,107 bytes made anew each time: a loop of ten, joined and encoded."""
    rows = []
    for number in range(10):
        cells = "".join("<td>%d \u00b7 %s</td>" % (number * cell, "value") for cell in range(150))
        rows.append("<tr>%s</tr>\n" % cells)
    text = ("<html><body><table>\n%s</table>\n" % "".join(rows)).encode("utf-8")
    end = b"</body></html>\n"
    return text + b" " * (PAGE - len(text) - len(end)) + end


def kept(path):
    """A file with the content, in $LAB_SCRATCH or the folder for temporary files."""
    folder = os.environ.get("LAB_SCRATCH") or tempfile.gettempdir()
    name = os.path.join(folder, "lab-%d.bin" % SIZES[path])
    if not os.path.exists(name):
        mine = "%s.%d" % (name, os.getpid())
        with open(mine, "wb") as file:
            file.write(content(path))
        os.rename(mine, name)
    return name


def application(environ, start_response):
    """A page by its path; 404 for others."""
    path = environ.get("PATH_INFO", "")
    if path == "/page":
        body = page()
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [body] if environ["REQUEST_METHOD"] != "HEAD" else [b""]
    if path not in SIZES:
        start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
        return [b""]
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(SIZES[path]))])
    if environ["REQUEST_METHOD"] == "HEAD":
        return [b""]
    file = open(kept(path), "rb")
    if path == "/static" and "wsgi.file_wrapper" in environ:
        return environ["wsgi.file_wrapper"](file, 65536)
    with file:
        return [file.read()]
