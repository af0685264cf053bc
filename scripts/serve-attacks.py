#!/usr/bin/env python3
"""Measures what one client can take from the others of `heed serve`, with Python's standard library alone.

    scripts/serve-attacks.py --heed build/release/heed --generator smollm2 --encoder minilm smollm2=FILE minilm=FOLDER

Each attack is one request (or several at once) that asks for as much as it can, and leaves after --seconds. Beside it, another
client asks for the vector of a short text again and again. A row has the answer's status, the longest of those waits, the
processor time that the server took, and the peak of its memory, all until the attack has ended and a vector was answered."""
import argparse
import http.client
import importlib.machinery
import importlib.util
import json
import os
import socket
import threading
import time
import urllib.parse

_loader = importlib.machinery.SourceFileLoader("serve_load", os.path.join(os.path.dirname(__file__), "serve-load.py"))
load = importlib.util.module_from_spec(importlib.util.spec_from_loader("serve_load", _loader))
_loader.exec_module(load)

KEY = "key-of-the-attacks"
WORDS = "the quick brown fox jumps over the lazy dog and runs ".split()


def words(count):
    return " ".join(WORDS[i % len(WORDS)] for i in range(count))


def attacks(generator, encoder):
    """Name, path, body as JSON or bytes, and how many at once."""
    completion = {"model": generator, "prompt": "a", "max_tokens": 1}
    chat = {"model": generator, "max_tokens": 4}
    texts = {"model": encoder}
    return [
        ("64 prompts, n 64", "/v1/completions", {**completion, "prompt": [words(50)] * 64, "n": 64}, 1),
        ("a chat of 6,400 words", "/v1/chat/completions", {**chat, "messages": [{"role": "user", "content": words(6400)}]}, 1),
        ("a chat of 10 MB", "/v1/chat/completions", {**chat, "messages": [{"role": "user", "content": words(2_000_000)}]}, 1),
        ("echo and logprobs of 7,000 words", "/v1/completions", {**completion, "prompt": words(7000), "echo": True, "logprobs": 20, "max_tokens": 0}, 1),
        ("49,000 biases, n 64", "/v1/completions", {**completion, "logit_bias": {str(i): 1 for i in range(49_000)}, "n": 64}, 1),
        ("300,000 stop strings", "/v1/completions", {**completion, "stop": ["x%d" % i for i in range(300_000)]}, 1),
        ("/tokenize of 16 MB", "/tokenize", {**texts, "inputs": "ab, " * 4_000_000}, 1),
        ("/tokenize of 1 MB", "/tokenize", {**texts, "inputs": "ab, " * 262_000}, 1),
        ("2 MB of Chinese", "/embed", {**texts, "inputs": "\u4e2d\u6587\u5b57\u7b26" * 170_000}, 1),
        ("1 MB of Chinese", "/embed", {**texts, "inputs": "\u4e2d\u6587\u5b57\u7b26" * 85_000}, 1),
        ("240 texts of 0.8 MB at once", "/embed", {**texts, "inputs": "\u4e2d\u6587 word " * 70_000}, 240),
        ("4,096 long texts", "/embed", {**texts, "inputs": [words(200)] * 4096}, 1),
        ("vectors of the tokens of 128 texts", "/embed_all", {**texts, "inputs": [words(250)] * 128}, 1),
        ("10 million empty arrays", "/embed", b'{"inputs": [' + b"[]," * 10_000_000 + b"[]]}", 1),
        ("60 bodies of 30 MB without a key", "/embed", None, 60),
    ]


class Target:
    def __init__(self, server):
        self.server = server
        url = urllib.parse.urlsplit(server.url)
        self.host, self.port = url.hostname, url.port

    def ask(self, path, body, timeout):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body),
                               {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return str(answer.status)
        except TimeoutError:
            return "left"
        except OSError as error:
            return type(error).__name__
        finally:
            connection.close()

    def send_without_key(self, timeout):
        with socket.create_connection((self.host, self.port), timeout=timeout) as connection:
            size = 30 << 20
            connection.sendall(b"POST /embed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % size)
            try:
                connection.sendall(b"a" * (size - 1))
                time.sleep(timeout)
                return "left"
            except OSError:
                return "closed"

    def peak(self, reset=False):
        if reset:
            with open(f"/proc/{self.server.process.pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def measure(target, options, path, body, count):
    before = target.server.processor_seconds()
    target.peak(reset=True)
    statuses = []

    def attack():
        statuses.append(target.send_without_key(options.seconds) if body is None else target.ask(path, body, options.seconds))

    threads = [threading.Thread(target=attack, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    longest, vectors = 0.0, 0
    last = False  # a vector that was asked for when the attack had ended
    while not last:
        last = not any(thread.is_alive() for thread in threads)
        asked = time.monotonic()
        status = target.ask("/embed", {"model": options.encoder, "inputs": "one short text"}, options.patience)
        longest = max(longest, time.monotonic() - asked)
        vectors += 1
        if status != "200":
            statuses.append("vector: " + status)
            break
        time.sleep(0.02)
    return sorted(set(statuses)), longest, vectors, target.server.processor_seconds() - before, target.peak()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="as for heed serve")
    parser.add_argument("--heed", required=True)
    parser.add_argument("--generator", required=True, help="the name of a model for chats")
    parser.add_argument("--encoder", required=True, help="the name of a model for vectors")
    parser.add_argument("--seconds", type=float, default=20, help="until an attack leaves")
    parser.add_argument("--patience", type=float, default=120, help="of the other client")
    parser.add_argument("--only", default="", help="attacks whose name has this text")
    parser.add_argument("--server-options", default="--threads 1")
    options = parser.parse_args()
    options.server_options += " --api-key " + KEY
    print("| attack | status | longest wait, s (vectors) | processor, s | memory at rest, MiB | peak | afterwards |\n|---|---|---|---|---|---|---|", flush=True)
    for name, path, body, count in attacks(options.generator, options.encoder):
        if options.only not in name:
            continue
        target = Target(load.Server(options))  # each attack meets a fresh one
        for warm, asked in (("/embed", {"model": options.encoder, "inputs": "a text"}), ("/v1/completions", {"model": options.generator, "prompt": "a", "max_tokens": 1})):
            target.ask(warm, asked, 60)
        rest = target.server.memory()
        statuses, longest, vectors, processor, peak = measure(target, options, path, body, count)
        print(f"| {name} | {', '.join(statuses)} | {longest:.2f} ({vectors}) | {processor:.1f} | {rest:.0f} | {peak:.0f} | {target.server.memory():.0f} |", flush=True)
        target.server.process.kill()
        target.server.process.wait()


if __name__ == "__main__":
    main()
