"""Serving a report of runs in progress."""

import http.client
import threading
from urllib.request import urlopen

from synthetic_logs import autotvm_log

from autotvm_opevo.reporting import serving

# Seconds to wait for an answer on a busy machine.
PATIENCE = 240


def test_only_requests_from_this_machine_are_answered(tmp_path):
    with serving.make_server([autotvm_log(tmp_path / "log.json", trials=4)]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        assert server.server_address[0] == "127.0.0.1"
        for path, host, status in (
            ("/", "127.0.0.1", 200),
            ("/", "evil.example", 403),
            ("/../etc/passwd", "localhost", 404),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("GET", path, headers={"Host": f"{host}:{port}"})
            assert connection.getresponse().status == status
            connection.close()
        server.shutdown()


def test_an_unreadable_log_is_retried(tmp_path):
    log = autotvm_log(tmp_path / "log.json", trials=4)
    with serving.make_server([log]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        log.write_text("rubbish <b>\nand more of it\n")
        connection = http.client.HTTPConnection(
            "127.0.0.1", server.server_address[1], timeout=PATIENCE
        )
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Refresh"]) == (503, "3")
        assert "none of its lines is a trial" in answer.read().decode()
        server.shutdown()


def test_the_page_is_not_rendered_for_every_trial(tmp_path, monkeypatch):
    """Rendering pauses for a multiple of the time that it took; here, forever."""
    rendered = []
    monkeypatch.setattr(serving, "render", lambda *_: rendered.append(1) or f"page {len(rendered)}")
    monkeypatch.setattr(serving, "_PAUSE_FACTOR", 1e9)
    log = autotvm_log(tmp_path / "log.json", trials=4)
    with serving.make_server([log]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for trials in (5, 6, 7):
            with urlopen(
                f"http://127.0.0.1:{server.server_address[1]}/", timeout=PATIENCE
            ) as answer:
                assert answer.read() == b"page 1"
            autotvm_log(log, trials)
        server.shutdown()


def test_logs_that_do_not_exist_yet_are_named(tmp_path, capsys, monkeypatch):
    """A folder stands for the logs in it."""
    monkeypatch.setattr(serving.ThreadingHTTPServer, "serve_forever", lambda _: None)
    (tmp_path / "folder").mkdir()
    for name in ("folder/a.json", "folder/b.json", "present.json"):
        autotvm_log(tmp_path / name, trials=4)
    serving.serve([tmp_path / "folder", tmp_path / "missing.json", tmp_path / "present.json"])
    assert (
        capsys.readouterr().out.splitlines()[0]
        == f"waiting for logs that do not exist yet: {tmp_path / 'missing.json'}"
    )
