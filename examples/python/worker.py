#!/usr/bin/env python3
r"""A Rondo worker over RabbitMQ in Python 3, with pika (Debian: apt-get install python3-pika).

It serves the workflow of letters.json: `letters.count` lists the words of a text as tasks and counts the letters of
one; the topic LETTERS_CMD_ANNOUNCE does commands; `letters.returns` says how many words there were.

    rondo start --broker amqp://localhost                              # a server that works with the broker
    /usr/bin/python3 examples/python/worker.py                         # this worker; RONDO_BROKER, RONDO_PREFIX
    rondo run letters -i '{"text": "to be or not to be"}' --wait       # prints {"words":6}

What a worker does (docs/protocol.md), and where it is below:
1. it declares what it shares with the engine, and a queue of its own
   for what every worker is told                                       -> Worker.open
2. one worker gets an enumeration: it puts the tasks into the intake,
   then says how many there were                                       -> Worker.enumerate
3. it consumes the task queues that `process` tells of, until
   `cancel.consumer`                                                   -> Worker.told
4. a delivery is acknowledged when the answer to it is confirmed; what
   is not acknowledged goes to another worker                          -> Worker.answer
5. on SIGTERM it takes no more, finishes what runs, exits with 0       -> Worker.run
"""
import functools
import json
import os
import signal
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pika
from pika.exceptions import AMQPError, NackError, UnroutableError

BROKER = os.environ.get("RONDO_BROKER", "amqp://guest:guest@localhost:5672/")
PREFIX = os.environ.get("RONDO_PREFIX", "rondo")
AT_ONCE = 8  # tasks at a time, and of each queue

PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="application/json")
TOPIC = {"x-queue-type": "quorum", "x-delivery-limit": 4}


def words(text_input, _resume):
    """The tasks of letters.count."""
    for word in text_input["text"].split():
        yield {"word": word}


def count(task, _input):
    """One task of letters.count."""
    return {"word": task["word"], "letters": len(task["word"])}


def returns(phases):
    """The output of the workflow: how many tasks are done."""
    return {"words": sum(h["done"] for p in phases for h in p["handlers"] if h["name"] == "count")}


def announce(data):
    """A command of LETTERS_CMD_ANNOUNCE."""
    return {"announced": data["text"].upper()}


HANDLERS = {"letters.count": {"enumerate": words, "process": count}, "letters.returns": {"returns": returns}}
TOPICS = {"LETTERS_CMD_ANNOUNCE": announce}


def receipt_topic(topic):
    """The segment CMD becomes RECEIPT; without one, _RECEIPT is appended."""
    parts = topic.split("_")
    if "CMD" not in parts:
        return topic + "_RECEIPT"
    parts[parts.index("CMD")] = "RECEIPT"
    return "_".join(parts)


def error_of(error):
    return {"name": type(error).__name__, "message": str(error)}


class Worker:
    """One connection. Handlers run in threads; everything else happens in the thread of the connection."""

    def __init__(self):
        self.connection = pika.BlockingConnection(pika.URLParameters(BROKER))
        self.channel = self.connection.channel()
        self.pool = ThreadPoolExecutor(AT_ONCE)
        self.queues = {}  # consumer tags by task queue
        self.begun = {}  # futures by delivery tag
        self.stopping = False

    def name(self, rest):
        return f"{PREFIX}.{rest}"

    def open(self):
        """Declares, binds and begins to consume."""
        channel = self.channel
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=AT_ONCE)
        channel.add_on_cancel_callback(self.gone)
        channel.queue_declare(self.name("workflow.handler.enumerated"), durable=True)
        own = channel.queue_declare("", exclusive=True, auto_delete=True).method.queue
        fanouts = {self.name("cancel.consumer"): None}
        for use in HANDLERS:
            fanouts[self.name(f"workflow.handler.{use}.process")] = use
        for fanout in fanouts:
            channel.exchange_declare(fanout, "fanout", durable=True)
            channel.queue_bind(own, fanout)
        channel.basic_consume(own, functools.partial(self.told, fanouts), auto_ack=True)
        for use, handler in HANDLERS.items():
            if "enumerate" not in handler:
                continue
            queue = self.name(f"workflow.handler.{use}.enumerate")
            channel.queue_declare(queue, durable=True)
            channel.basic_consume(queue, functools.partial(self.enumerate, handler))
        for topic, run in TOPICS.items():
            for queue in (receipt_topic(topic), topic):
                channel.queue_declare(queue, durable=True, arguments=TOPIC)
            channel.basic_consume(topic, functools.partial(self.command, topic, run))

    def told(self, fanouts, channel, method, _properties, body):
        """`process` tells of a task queue, again and again; `cancel.consumer` of one that is not to be consumed."""
        message = json.loads(body)
        queue = message["task_queue"]
        use = fanouts[method.exchange]
        if use is None:
            tag = self.queues.pop(queue, None)
            if tag is not None:
                channel.basic_cancel(tag)
        elif queue not in self.queues and not self.stopping:
            try:
                # The queue may be gone by now: looked at over a channel that may break.
                looking = self.connection.channel()
                looking.queue_declare(queue, passive=True)
                looking.close()
            except AMQPError:
                return
            run = functools.partial(self.task, HANDLERS[use], message.get("input"))
            self.queues[queue] = channel.basic_consume(queue, run)

    def gone(self, frame):
        """The broker says that a queue is gone; if it is made again, `process` tells of it."""
        tag = frame.method.consumer_tag
        self.queues = {queue: known for queue, known in self.queues.items() if known != tag}

    def task(self, handler, given, _channel, method, _properties, body):
        """One task; its answer goes to the finished queue that the message names."""
        message = json.loads(body)
        if message.get("do") == "returns":
            work = functools.partial(handler["returns"], message["phases"])
        else:
            work = functools.partial(handler["process"], message["data"], given)

        def answer(result, error):
            kept = ("workflow_id", "phase", "handler", "task", "attempt", "token")
            said = {key: message[key] for key in kept}
            said.update({"status": "done", "result": result} if error is None else {"status": "failed", "error": error})
            self.answer(method.delivery_tag, message["finished_queue"], said)

        self.run_apart(method.delivery_tag, work, answer)

    def command(self, topic, run, _channel, method, properties, body):
        """One command; its receipt repeats it, with the result or the error."""
        command = json.loads(body)

        def answer(result, error):
            said = dict(command)
            said.update({"cmd_result": result} if error is None else {"proc_err": error})
            self.answer(method.delivery_tag, properties.reply_to or receipt_topic(topic), said)

        self.run_apart(method.delivery_tag, functools.partial(run, command.get("cmd_data") or {}), answer)

    def enumerate(self, handler, channel, method, _properties, body):
        """Puts each task into the intake, numbered, then says how many there are."""
        message = json.loads(body)
        kept = ("workflow_id", "phase", "handler", "attempt", "token")
        place = {key: message[key] for key in kept}
        said = {**place, "task_queue": message["task_queue"], "finished_queue": message["finished_queue"]}
        try:
            total = 0
            for data in handler["enumerate"](message["input"], message.get("resume")):
                self.publish(message["task_queue"], {**place, "position": total, "data": data})
                total += 1
            said.update(status="done", total=total)
        except UnroutableError:
            channel.basic_ack(method.delivery_tag)  # the queue is gone: the enumeration is no longer needed
            return
        except Exception as error:  # pylint: disable=broad-except
            said.update(status="failed", error=error_of(error))
        self.answer(method.delivery_tag, self.name("workflow.handler.enumerated"), said)

    def run_apart(self, tag, work, answer):
        """Runs a handler in a thread, so that the connection goes on; answers in the connection's thread."""

        def ended(future):
            error = future.exception()
            say = functools.partial(answer, None if error else future.result(), error_of(error) if error else None)
            self.connection.add_callback_threadsafe(say)

        self.begun[tag] = self.pool.submit(work)
        self.begun[tag].add_done_callback(ended)

    def publish(self, queue, message):
        """Resolves when the broker has it; raises UnroutableError if there is no such queue."""
        self.channel.basic_publish("", queue, json.dumps(message), PERSISTENT, mandatory=True)

    def answer(self, tag, queue, message):
        """Acknowledges what is answered once the answer is confirmed; otherwise it is delivered again."""
        self.begun.pop(tag, None)
        try:
            self.publish(queue, message)
            self.channel.basic_ack(tag)
        except (UnroutableError, NackError):
            self.channel.basic_nack(tag, requeue=True)

    def run(self):
        """Works until SIGTERM or Ctrl-C; then takes nothing more, lets what runs end, and leaves."""

        def stop():
            self.stopping = True
            for tag in list(self.channel.consumer_tags):
                self.channel.basic_cancel(tag)

        on_end(lambda: self.connection.add_callback_threadsafe(stop))
        self.open()
        print(f"worker serves {', '.join([*HANDLERS, *TOPICS])}", flush=True)
        while not self.stopping or self.begun:
            self.connection.process_data_events(time_limit=1)
        self.pool.shutdown()
        self.connection.close()


def on_end(act):
    """Calls `act` when the process is asked to end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())


def register():
    """Registers the workflow with the server of RONDO_URL, if it is set. A worker over a broker cannot register."""
    url = os.environ.get("RONDO_URL")
    if not url:
        return
    headers = {"content-type": "application/json"}
    if os.environ.get("RONDO_TOKEN"):
        headers["authorization"] = f"Bearer {os.environ['RONDO_TOKEN']}"
    definition = (Path(__file__).parent / "letters.json").read_bytes()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/workflows", definition, headers)) as answer:
        answer.read()


def main():
    register()
    while True:
        try:
            Worker().run()
            return
        except AMQPError as error:
            on_end(sys.exit)
            print(f"the broker is away ({error!r}): trying again", file=sys.stderr, flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
