#!/usr/bin/env python3
r"""A Rondo worker in plain Python 3, with nothing but the standard library.

It serves the workflow of word-count.json: `word-count.lines` lists the lines of a text as tasks, in pages;
`word-count.count` counts the words of one line; `word-count.returns` adds them up.

    rondo start                                                       # a server, on http://127.0.0.1:7777
    python3 examples/python-worker.py                                 # this worker; RONDO_URL, RONDO_TOKEN
    rondo run word-count -i '{"text": "to be or\nnot to be"}' --wait   # prints {"lines":2,"words":6}

What a worker does, and where it is below:
1. it tells the server its workflow and registers its handlers        -> main
2. it claims work by long poll, never more than it has room for       -> main
3. what it says about an attempt is numbered from 1 and sent again
   until the server has acknowledged it; a receipt is the last word   -> Attempt.say
4. while it has attempts it beats, and hears which to stop            -> beat
5. on SIGTERM it claims no more, finishes what runs, exits with 0     -> stop
"""
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

URL = os.environ.get("RONDO_URL", "http://127.0.0.1:7777")
TOKEN = os.environ.get("RONDO_TOKEN")
CAPACITY = 8
PAGE = 500

worker = None  # this worker's id, once it is registered
held = {}  # attempts by id
changed = threading.Condition()  # notified when an attempt has ended
stopping = threading.Event()


def call(method, path, body=None, token=TOKEN, timeout=90):
    """One request; returns the JSON of the answer, raises HTTPError for a refusal, OSError without a server."""
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read() or b"null")


def persist(path, body, timeout=90):
    """Posts under this worker until the server has taken it; a server that has forgotten us gets to know us again."""
    wait = 0.1
    while True:
        try:
            return call("POST", f"/v1/workers/{worker}/{path}", body, timeout=timeout)
        except urllib.error.HTTPError as refusal:
            if refusal.code == 404:
                register()
            elif refusal.code < 500 and refusal.code != 429:
                raise
        except OSError:
            if stopping.is_set() and path == "claim":
                return {"work": [], "cancel": [], "lost": []}  # nothing more is wanted of it
        time.sleep(wait)
        wait = min(wait * 2, 10)


def register():
    global worker
    body = {
        "name": "python",
        "handlers": [{"use": use, "enumerates": use == "word-count.lines"} for use in HANDLERS],
        "capacity": CAPACITY,
    }
    worker = call("POST", "/v1/workers", body | ({"worker": worker} if worker else {}))["worker"]


class Attempt:
    """One attempt that this worker has: what it is to do, and what is said about it."""

    def __init__(self, work, text_input):
        self.work, self.input = work, text_input
        self.n = 0
        self.cancelled = threading.Event()

    def say(self, kind, **fields):
        self.n += 1
        event = {"attempt": self.work["attempt"], "n": self.n, "kind": kind, **fields}
        body = {"tokens": {self.work["attempt"]: self.work["token"]}, "events": [event]}
        return persist("events", body)["verdicts"][self.work["attempt"]]

    def results(self, phase, handler):
        """Results of an earlier phase, page by page, by this attempt's own token."""
        path, cursor = f"/v1/attempts/{self.work['attempt']}/results/{phase}/{handler}", None
        while True:
            page = call("GET", path + (f"?cursor={cursor}" if cursor else ""), token=self.work["token"])
            yield from (row["result"] for row in page["data"] if row["status"] == "done")
            cursor = page["next"]
            if cursor is None:
                return

    def run(self):
        try:
            if stopping.is_set():
                self.say("receipt", status="cancelled")  # not begun: another worker gets it
                return
            self.say("started")
            self.say("receipt", status="done", **HANDLERS[self.work["use"]](self))
        except Cancelled:
            self.say("receipt", status="cancelled")
        except urllib.error.HTTPError as refusal:
            print(f"{self.work['attempt']}: {refusal.read().decode()}", flush=True)
        except Exception as error:  # any error of the handler: the server decides about another attempt
            self.say("receipt", status="failed", error={"name": type(error).__name__, "message": str(error)})
        finally:
            with changed:
                del held[self.work["attempt"]]
                changed.notify_all()


class Cancelled(Exception):
    pass


def list_lines(attempt):
    """Enumerates: the tasks in pages. A second attempt goes on after those that are stored already."""
    lines = attempt.input["text"].splitlines()
    known = attempt.work.get("resume", {}).get("count", 0)
    for start in range(known, len(lines), PAGE):
        verdict = attempt.say("page", **{"from": start, "tasks": lines[start : start + PAGE]})
        if attempt.cancelled.is_set() or verdict in ("stale", "gone"):
            raise Cancelled
    return {"total": len(lines)}


def count_words(attempt):
    """Processes one task. `idempotencyKey` is the same for all attempts of it."""
    return {"result": len(attempt.work["task"].split())}


def add_up(attempt):
    counts = list(attempt.results("count", "count"))
    return {"result": {"lines": len(counts), "words": sum(counts)}}


HANDLERS = {"word-count.lines": list_lines, "word-count.count": count_words, "word-count.returns": add_up}


def beat():
    """Keeps attempts alive, while there are some: a beat at least every third of the silence they can bear."""
    while True:
        attempts = list(held.items())
        tokens = {id: attempt.work["token"] for id, attempt in attempts if attempt.n > 0}
        if tokens:
            for id, word in persist("heartbeat", {"tokens": tokens}).items():
                if word != "continue" and id in held:
                    held[id].cancelled.set()
        shortest = min([attempt.work["heartbeatMs"] for _, attempt in attempts], default=3000)
        time.sleep(min(shortest, 30000) / 3000)


def stop(*_):
    """SIGTERM: a second claim, for nothing, makes the one that waits answer at once."""
    stopping.set()
    threading.Thread(target=persist, args=("claim", {"max": 0, "waitMs": 0}), daemon=True).start()


def main():
    definition = json.loads(Path(__file__).with_name("word-count.json").read_text())
    try:
        call("POST", "/v1/workflows", definition)
        register()
    except urllib.error.HTTPError as refusal:
        sys.exit(f"{URL} refuses this worker: {refusal.read().decode()}")
    except OSError as error:
        sys.exit(f"no server at {URL} ({error}); start one with: rondo start")
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=beat, daemon=True).start()
    print(f"worker {worker} serves {URL}", flush=True)
    with ThreadPoolExecutor(CAPACITY) as pool:
        while not stopping.is_set():
            with changed:
                changed.wait_for(lambda: len(held) < CAPACITY)
            claimed = persist("claim", {"max": CAPACITY - len(held), "waitMs": 60000})
            for id in claimed["cancel"] + claimed["lost"]:
                if id in held:
                    held[id].cancelled.set()
            for work in claimed["work"]:
                held[work["attempt"]] = attempt = Attempt(work, claimed["inputs"][work["execution"]])
                pool.submit(attempt.run)
            if claimed.get("drain"):
                stopping.set()


if __name__ == "__main__":
    main()
