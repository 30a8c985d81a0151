"""Serve the page of runs in progress on this machine; it is rendered again when a log has grown."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autotvm_opevo.reporting.logs import fingerprint, open_logs
from autotvm_opevo.reporting.page import render

# Interval at which the page checks for new trials.
_POLL_MS = 3_000
# Rendering uses a core that trials are measured on, so it pauses for this multiple of the time it
# took.
_PAUSE_FACTOR = 9


def serve(logs: Sequence[str | os.PathLike[str]], title: str = "", port: int = 0) -> None:
    """Serve the report on 127.0.0.1, at any free port if that is 0, until interrupted with Ctrl-C.
    The logs need not exist yet. Raises `ValueError` if a path is not a log, and `OSError` if the
    port is in use.
    """
    contents = open_logs(logs, must_exist=False)
    if missing := [str(log.path.resolve()) for log in contents if not log.path.exists()]:
        print(f"waiting for logs that do not exist yet: {', '.join(missing)}", flush=True)
    try:
        server = make_server(logs, title, port)
    except OSError as error:
        problem = f"cannot listen on port {port} ({error.strerror})"
        raise OSError(f"{problem}: give another, or none for any free port") from error
    with server, suppress(KeyboardInterrupt):
        print(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C to stop)", flush=True)
        server.serve_forever()


def make_server(
    logs: Sequence[str | os.PathLike[str]], title: str = "", port: int = 0
) -> ThreadingHTTPServer:
    """Create the server that `serve` runs."""
    lock = threading.Lock()
    # fingerprint and text of the page, and when it may be rendered again
    rendered, text, earliest = "", "", 0.0

    def newest() -> str:
        """The fingerprint of the page that a client would get now."""
        return rendered if time.monotonic() < earliest else fingerprint(logs)

    def page() -> str:
        """The page, rendered once for all clients whenever the logs have changed."""
        nonlocal rendered, text, earliest
        with lock:
            current = newest()
            if not text or current != rendered:
                start = time.monotonic()
                try:
                    text = render(open_logs(logs, must_exist=False), title, _POLL_MS, current)
                    rendered = current
                finally:
                    earliest = time.monotonic() + _PAUSE_FACTOR * (time.monotonic() - start)
            return text

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # DNS rebinding: another site's name resolved to this machine
            if self.headers.get("Host", "").partition(":")[0] not in ("127.0.0.1", "localhost"):
                self.send_error(403)
            elif self.path == "/":
                self._answer("text/html", page)
            elif self.path == "/fingerprint":
                self._answer("text/plain", newest)
            else:
                self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _answer(self, kind: str, body: Callable[[], str]) -> None:
            status = 200
            try:
                answer = body()
            except Exception as error:  # such as a log that is being replaced
                status, kind, answer = 503, "text/plain", f"{type(error).__name__}: {error}"
            with suppress(ConnectionError):  # the browser has disconnected
                self.send_response(status)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Cache-Control", "no-store")
                if status != 200:
                    self.send_header("Refresh", "3")
                self.end_headers()
                self.wfile.write(answer.encode())

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)
