"""A report that follows a tuning run: a page on this machine alone, made anew whenever a log has grown."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from autotvm_opevo.reporting.logs import open_logs, state
from autotvm_opevo.reporting.page import render

# So many milliseconds after the page has asked whether there is more, it asks again.
_EVERY = 3_000
# What is shown while a log cannot be read, until it can.
_AGAIN = '<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="3"><title>waiting</title><p>{}</p>'
# Making a page takes one of the cores that are measured on; it then rests so many times as long.
_REST = 9


def serve(logs: Sequence[str | os.PathLike[str]], title: str = "", port: int = 0) -> None:
    """Serve the page on 127.0.0.1 until Ctrl-C.

    Parameters
    ----------
    logs : sequence of str or path
        They need not exist yet.
    title : str
        Of the page; the logs' names unless given.
    port : int
        Any that is free unless given.

    Raises
    ------
    ValueError
        If a log is none.
    OSError
        If the port is taken.
    """
    recordings = open_logs(logs, must_exist=False)
    missing = [str(Path(path).resolve()) for path, recording in zip(logs, recordings) if not recording.exists]
    if missing:
        print(f"nothing to read yet: {', '.join(missing)}; the page waits", flush=True)
    try:
        server = make_server(logs, title, port)
    except OSError as error:
        raise OSError(f"port {port} cannot be had ({error.strerror}): name another one, or none for any that is free") from error
    with server:
        print(f"http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends it)", flush=True)
        with suppress(KeyboardInterrupt):  # that is how it ends
            server.serve_forever()


def make_server(logs: Sequence[str | os.PathLike[str]], title: str = "", port: int = 0) -> ThreadingHTTPServer:
    """What `serve` runs."""
    lock = threading.Lock()
    made, text, until = "", b"", 0.0

    def page() -> bytes:
        """Made once for every state of the logs, however many look at it, and not more often than a tenth of the time allows."""
        nonlocal made, text, until
        with lock:
            now = state(logs)
            if not text or (now != made and time.monotonic() >= until):
                start = time.monotonic()
                try:
                    text, made = render(open_logs(logs, must_exist=False), title, _EVERY, now).encode(), now
                finally:
                    until = time.monotonic() + _REST * (time.monotonic() - start)
            return text

    def newest() -> bytes:
        """The state that a page of now would have."""
        return (made if time.monotonic() < until else state(logs)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = self.headers.get("Host", "").partition(":")[0]
            if host not in ("127.0.0.1", "localhost"):  # another site's name that leads here
                self.send_error(403)
            elif self.path == "/":
                self._answer("text/html; charset=utf-8", page)
            elif self.path == "/state":
                self._answer("text/plain", newest)
            else:
                self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _answer(self, kind: str, body: Callable[[], bytes]) -> None:
            with suppress(ConnectionError):  # of a browser that has gone
                try:
                    status, text = 200, body()
                except Exception as error:  # of a log that is being replaced, or has become something else
                    status, text = 503, _AGAIN.format(escape(f"{type(error).__name__}: {error}")).encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(text)

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)
