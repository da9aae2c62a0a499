"""Stands in place of `vllm` in a container: the same words, log lines and API, and no model. Of the standard library alone.

Rank 0 waits for the others as a TCP store does, then answers over HTTP; a worker ends when rank 0 does, and the other way round.
What is to go wrong is said behind `--stub`: `die@RANK:SECONDS`, `exit0@RANK:SECONDS`, `slow@RANK:SECONDS`, `never`, `deaf`, or
how it answers: `hang`, `empty`, `html`, `error`, `closed`.
"""

import http.server
import json
import os
import signal
import socket
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any


def value(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def say(text: str) -> None:
    told = time.strftime("%m-%d %H:%M:%S")
    print(f"INFO {told} [stub.py] {text}", file=sys.stderr, flush=True)


RANK, NODES = int(value("--node-rank", "0")), int(value("--nnodes", "1"))
MODEL, NAME = sys.argv[2], value("--served-model-name")
FAULTS = [sys.argv[n + 1] for n, word in enumerate(sys.argv) if word == "--stub"]
KEPT: list[socket.socket] = []


def seconds_of(kind: str) -> float | None:
    found = [each for each in FAULTS if each.startswith(f"{kind}@{RANK}:")]
    return float(found[0].partition(":")[2]) if found else None


def end_later(kind: str, status: int) -> None:
    if (after := seconds_of(kind)) is None:
        return

    def end() -> None:
        time.sleep(after)
        if status:
            say('Traceback (most recent call last):\n  File "stub.py"')
            say(f"RuntimeError: rank {RANK} was told to die")
        else:
            say("Shutting down")
        os._exit(status)

    threading.Thread(target=end, daemon=True).start()


def hold(connection: socket.socket, who: str) -> None:
    """End with the other side, a moment later, as a rank does that lost its peer."""

    def watch() -> None:
        try:
            while connection.recv(100):
                pass
        except OSError:
            pass
        time.sleep(0.3)
        say(f"RuntimeError: the {who} closed the connection")
        os._exit(1)

    KEPT.append(connection)
    threading.Thread(target=watch, daemon=True).start()


def meet() -> None:
    place = (value("--master-addr"), int(value("--master-port")))
    own, interface = os.environ["VLLM_HOST_IP"], os.environ["GLOO_SOCKET_IFNAME"]
    say(f"rank {RANK} of {NODES} at {own} on {interface}, master {place[0]}:{place[1]}")
    if RANK == 0:
        with socket.create_server(place) as server:
            for _ in range(NODES - 1):
                connection, peer = server.accept()
                say(f"joined: {peer[0]}")
                hold(connection, "worker")
        return
    while True:
        try:
            connection = socket.create_connection(place, 5, source_address=(own, 0))
        except OSError as error:
            say(f"waiting for the master: {error}")
            time.sleep(0.3)
        else:
            connection.settimeout(None)
            hold(connection, "master")
            return


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (as it is called)
        pass

    def give(self, status: int, body: Any, kind: str = "application/json") -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        if self.path == "/health":
            return self.give(200, b"")
        return self.give(200, {"object": "list", "data": [{"id": NAME, "root": MODEL}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        say(f"asked: {asked['prompt']!r}")
        if "hang" in FAULTS:
            time.sleep(3600)
        if "closed" in FAULTS:
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        if "html" in FAULTS:
            return self.give(200, b"<html>Welcome</html>", "text/html")
        if "error" in FAULTS:
            return self.give(500, {"error": {"message": "EngineCore encountered an issue."}})
        number = int(asked["max_tokens"])
        text = f" {zlib.crc32((MODEL + asked['prompt']).encode()):08x}"
        choice = {
            "index": 0,
            "text": "" if "empty" in FAULTS else text,
            "finish_reason": "length",
            "logprobs": {"token_logprobs": [-0.5] * number, "tokens": ["x"] * number},
        }
        usage = {"prompt_tokens": 9, "completion_tokens": number, "total_tokens": 9 + number}
        return self.give(200, {"model": NAME, "choices": [choice], "usage": usage})


def stop(*_: object) -> None:
    say("Shutting down")
    os._exit(0)


def main() -> None:
    deaf = "deaf" in FAULTS
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else stop)
    say(f"vLLM API server version stub, args {sys.argv[1:]}")
    if not Path(MODEL, "config.json").exists():
        say(f"OSError: {MODEL} has no config.json")
        sys.exit(1)
    end_later("die", 1)
    end_later("exit0", 0)
    if NODES > 1:
        meet()
    say("Loading safetensors checkpoint shards: 100% Completed | 1/1")
    time.sleep(seconds_of("slow") or 0)
    if "--headless" in sys.argv:
        say("headless, no API is served")
        threading.Event().wait()
    if "never" in FAULTS:
        say("Capturing CUDA graphs")
        threading.Event().wait()
    host, port = value("--host"), int(value("--port"))
    say(f"Starting vLLM API server on http://{host}:{port}")
    http.server.ThreadingHTTPServer((host, port), Api).serve_forever()


if __name__ == "__main__":
    main()
