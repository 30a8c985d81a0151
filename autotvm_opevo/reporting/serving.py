"""Serve a report of runs in progress on this machine; it is rendered again whenever a log has
grown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autotvm_opevo.reporting.logs import fingerprint, open_logs
from autotvm_opevo.reporting.page import render

# Interval at which the page checks for new trials.
_POLL_MS = 3_000
# Shown while a log cannot be read; reloads until it can.
_RETRY_PAGE = (
    '<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" '
    'content="3"><title>waiting</title><p>{}</p>'
)
# Rendering uses a core that trials are measured on, so it pauses for this multiple of the time it
# took.
_PAUSE_FACTOR = 9


def serve(logs: Sequence[str | os.PathLike[str]], title: str = "", port: int = 0) -> None:
    """Serve the report on 127.0.0.1 until interrupted with Ctrl-C.

    Parameters
    ----------
    logs : sequence of str or path
        They need not exist yet.
    title : str
        Title of the page. Defaults to the names of the logs.
    port : int
        0 for any free port.

    Raises
    ------
    ValueError
        If a path is not a log.
    OSError
        If the port is in use.
    """
    contents = open_logs(logs, must_exist=False)
    missing = [str(log.path.resolve()) for log in contents if not log.exists]
    if missing:
        print(f"waiting for logs that do not exist yet: {', '.join(missing)}", flush=True)
    try:
        server = make_server(logs, title, port)
    except OSError as error:
        raise OSError(
            f"cannot listen on port {port} ({error.strerror}): give another, or none for any "
            "free port"
        ) from error
    with server:
        print(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C to stop)", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def make_server(
    logs: Sequence[str | os.PathLike[str]], title: str = "", port: int = 0
) -> ThreadingHTTPServer:
    """Create the server that `serve` runs."""
    lock = threading.Lock()
    # fingerprint and text of the page, and when it may be rendered again
    rendered, text, earliest = "", b"", 0.0

    def page() -> bytes:
        """The page, rendered once per state of the logs for all clients, using at most a tenth of
        the time.
        """
        nonlocal rendered, text, earliest
        with lock:
            current = fingerprint(logs)
            if not text or (current != rendered and time.monotonic() >= earliest):
                start = time.monotonic()
                try:
                    text = render(
                        open_logs(logs, must_exist=False), title, _POLL_MS, current
                    ).encode()
                    rendered = current
                finally:
                    earliest = time.monotonic() + _PAUSE_FACTOR * (time.monotonic() - start)
            return text

    def newest() -> bytes:
        """The fingerprint of the page that a client would get now."""
        return (rendered if time.monotonic() < earliest else fingerprint(logs)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").partition(":")[0]
            # DNS rebinding: another site's name resolved to this machine
            if host not in ("127.0.0.1", "localhost"):
                self.send_error(403)
            elif self.path == "/":
                self._answer("text/html; charset=utf-8", page)
            elif self.path == "/fingerprint":
                self._answer("text/plain", newest)
            else:
                self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _answer(self, kind: str, body: Callable[[], bytes]) -> None:
            with suppress(ConnectionError):  # the browser has disconnected
                try:
                    status, text = 200, body()
                except Exception as error:  # such as a log that is being replaced
                    status = 503
                    text = _RETRY_PAGE.format(escape(f"{type(error).__name__}: {error}")).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(text)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)
