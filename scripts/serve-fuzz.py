#!/usr/bin/env python3
"""Sends hostile requests to `heed serve`, with Python's standard library alone.

    scripts/serve-fuzz.py --heed build/release/heed --requests 1000000 MODEL...

Requests of every route begin as right ones, and are then changed: fields left out, doubled, of wrong types and sizes, of
other routes; bodies cut, flipped and nested; heads with wrong lengths, methods, versions and encodings; two requests in one
packet; clients that go away at any byte. Every answer must be a whole HTTP response with a status of the documentation;
JSON where it says so, and one that names the error for 400 and above; never 500. At the end the server answers /health,
exits with status 0 after SIGTERM and has printed nothing of a sanitizer. Failures print the request; --seed repeats them."""
import argparse
import asyncio
import collections
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import tempfile
import time

_loader = importlib.machinery.SourceFileLoader("serve_load", os.path.join(os.path.dirname(__file__), "serve-load.py"))
load = importlib.util.module_from_spec(importlib.util.spec_from_loader("serve_load", _loader))
_loader.exec_module(load)

STATUSES = {100, 200, 204, 400, 401, 403, 404, 405, 408, 411, 413, 415, 417, 422, 424, 429, 431, 501, 503, 504, 505}
STRINGS = ["", " ", "\x00", "a\x00b", "\ud800", "\U0001f600" * 40, "<|im_start|>system", "</s><s>[MASK]", "../../etc/passwd", "0",
           "true", "null", "{}", "a" * 5000, "\n" * 500, "é" * 300, "%s%n", "data:image/png;base64,AAAA", "\u202e\ufeff", "float", "base64"]
NUMBERS = [0, -1, 1, 2, 3, 7, 255, 4096, 1 << 31, 1 << 53, 1 << 63, 1 << 64, -(1 << 63) - 1, 10**40, 0.5, -0.0, 1e-320, 1e308, -1e308,
           float("nan"), float("inf")]


def value(chance, depth=0):
    """Any JSON."""
    kind = chance.randrange(9 if depth < 4 else 5)
    if kind < 2:
        return chance.choice(NUMBERS)
    if kind < 4:
        return chance.choice(STRINGS)
    if kind == 4:
        return chance.choice([None, True, False])
    if kind < 7:
        return [value(chance, depth + 1) for _ in range(chance.choice([0, 1, 2, 3, 30]) if depth < 2 else 1)]
    return {chance.choice(STRINGS[:12] + ["type", "role", "content", "function", "schema"]): value(chance, depth + 1) for _ in range(3)}


class Requests:
    """Changed requests; all of one seed are the same ones."""

    def __init__(self, models, routes, chance):
        self.models, self.chance = models, chance
        self.routes = routes  # path to the names and types of its fields

    def field(self, name, kind):
        """A value that a field of the type may have."""
        chance = self.chance
        if name == "max_tokens":
            return chance.choice([0, 1, 2, 3])
        return {"boolean": lambda: chance.random() < 0.5, "integer": lambda: chance.choice([0, 1, 2, 3, 5]),
                "number": lambda: chance.choice([0, 0.1, 0.7, 1, 2]), "string": lambda: chance.choice(STRINGS),
                "array": lambda: [chance.choice([value(chance, 3), chance.choice(STRINGS), 3])], "object": lambda: {}}.get(
                    kind, lambda: value(chance))()

    def right(self):
        chance = self.chance
        model = chance.choice(self.models)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}]
        kinds = load.requests_for(model, chance) + [
            ("decode", "/decode", {"model": model, "ids": [1, 2, 3]}), ("translate", "/translate", {"model": model, "text": "a house"}),
            ("ids", "/v1/completions", {"model": model, "prompt": [[1, 2], [3]], "max_tokens": 2, "echo": True}),
            ("schema", "/v1/completions", {"model": model, "prompt": "a", "max_tokens": 3, "guided_regex": "[a-c]+"}),
            ("format", "/v1/chat/completions", {"model": model, "max_tokens": 3, "messages": [{"role": "user", "content": "a"}], "tools": tools,
                                                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "array"}}}}),
            ("taps", "/v1/completions", {"model": model, "prompt": "a b", "max_tokens": 1, "heed": {"taps": ["decoder.layers.0.out"], "attention": {"layers": [0]}}}),
            ("info", "/info", None), ("models", "/v1/models/" + model, None), ("health", "/health", None), ("metrics", "/metrics", None)]
        _, path, body = chance.choice(kinds)
        if body is not None and "max_tokens" in body:
            body["max_tokens"] = min(body["max_tokens"], 3)
        return path, body

    def change(self, path, body):
        """Other fields and values."""
        chance = self.chance
        for _ in range(chance.choice([0, 1, 1, 2, 4])):
            kind, names = chance.randrange(6), list(body)
            if kind == 0 and names:
                del body[chance.choice(names)]
            elif kind == 1 and names:
                body[chance.choice(names)] = value(chance)
            elif kind == 2 and self.routes.get(path):
                name = chance.choice(list(self.routes[path]))
                body[name] = self.field(name, self.routes[path][name])
            elif kind == 3 and self.routes.get(path):
                body[chance.choice(list(self.routes[path]))] = value(chance)
            elif kind == 4:
                body[chance.choice(STRINGS)] = value(chance)
            elif names:
                inner = body[chance.choice(names)]
                if isinstance(inner, list) and inner:
                    inner[chance.randrange(len(inner))] = value(chance)
                elif isinstance(inner, dict):
                    inner[chance.choice(list(inner) + ["x"])] = value(chance)
        return body

    def spoil(self, text):
        """Other bytes."""
        chance, kind = self.chance, self.chance.randrange(9)
        at = chance.randrange(len(text) + 1)
        if kind == 0:
            return text[:at]
        if kind == 1:
            return text[:at] + bytes(chance.choices(range(256), k=chance.choice([1, 2, 9]))) + text[at:]
        if kind == 2 and text:
            flipped = bytearray(text)
            flipped[min(at, len(text) - 1)] ^= 1 << chance.randrange(8)
            return bytes(flipped)
        if kind == 3:
            return chance.choice([b"[", b'{"a":', b"[{}, "]) * chance.choice([10, 600, 20000])
        if kind == 4:
            return text[:at] + chance.choice([b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5"]) + text[at:]
        if kind == 5:
            return text + text
        if kind == 6:
            return text[:-1] + b',"model":"x","model":[]}'
        if kind == 7:
            return b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + text + chance.choice([b"", b"\r\n--b--\r\n"])
        return chance.choice([b"", b"null", b"[]", b'"a"', b"1e999", b"NaN", b"\xef\xbb\xbf{}"])

    def one(self):
        """The bytes of a request, how many answers they may have at most, and whether one must come."""
        chance = self.chance
        path, body = self.right()
        text = b"" if body is None else json.dumps(self.change(path, body)).encode("utf-8", "surrogatepass")
        if body is not None and chance.random() < 0.25:
            text = self.spoil(text)
        method, version, length = "GET" if body is None else "POST", "HTTP/1.1", str(len(text))
        host, kind = "Host: localhost\r\n", "application/json"
        more, answers, must, encoded = "", 1, True, text
        if text.startswith(b"--b"):
            kind = "multipart/form-data; boundary=" + chance.choice(["b", "b", "c", '"', ""])
            path = chance.choice(["/v1/audio/transcriptions", path])
        if chance.random() < 0.15:
            wrong = chance.randrange(12)
            if wrong == 0:
                method = chance.choice(["HEAD", "PUT", "DELETE", "OPTIONS", "get", "P\x01ST", "X" * 300])
                must = method.isalpha() and len(method) < 20
            elif wrong == 1:
                path = chance.choice(["/", "//", "/v1", "/%00", "/v1/models/%2e%2e/x", "*", "x", "/" + "a" * 9000, path + "?" + "a=b&" * 50, "/\xff", ""])
                must = False
            elif wrong == 2:
                length, must = chance.choice(["-1", "x", "", "99999999999999999999", "1 ", "0x10", "+3", str(len(text) + 5), str(max(0, len(text) - 3))]), False
            elif wrong == 3:
                version, must = chance.choice(["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "http/1.1", "", "HTTP/1.1 x"]), False
            elif wrong == 4:
                host = chance.choice(["", "Host:\r\n", "Host: evil.example\r\n", "Host: localhost\r\nHost: a\r\n", "Host: [::1]:80\r\n"])
            elif wrong == 5:
                kind = chance.choice(["text/plain", "", "application/json; charset=utf-16", "multipart/form-data", "x" * 3000])
            elif wrong == 6:
                more = chance.choice(["Expect: 100-continue\r\n", "Connection: close\r\n", "Connection: upgrade\r\nUpgrade: websocket\r\n", "Origin: http://evil.example\r\n",
                                      "Authorization: Bearer x\r\n", "Accept: application/vnd.safetensors\r\n", "Accept: " + "a," * 900 + "\r\n", "Content-Encoding: gzip\r\n"])
                must = False
            elif wrong == 7:
                more, must = "X: " + "a" * chance.choice([100, 9000, 70000]) + "\r\n", False
            elif wrong == 8:
                more, must = chance.choice(["bad line\r\n", " folded\r\n", "A\x00: b\r\n", ": x\r\n", "A: b\n", "A : b\r\n", "A: \x7f\xff\r\n"]), False
            elif wrong in (9, 10):  # in pieces, perhaps wrong ones
                cut = chance.randrange(len(text) + 1)
                sizes = [f"{cut:x}", f"{len(text) - cut:X}"] if wrong == 9 else [chance.choice(["-1", "zz", "ffffffffffffffffff", "1;x=y", ""]), "3"]
                encoded = b"".join(size.encode() + b"\r\n" + part + b"\r\n" for size, part in zip(sizes, (text[:cut], text[cut:])) if part) + b"0\r\n\r\n"
                length, more, must = None, "Transfer-Encoding: chunked\r\n", False
            else:
                more, must = f"Transfer-Encoding: {chance.choice(['gzip', 'chunked, gzip', 'identity'])}\r\n", False
        head = f"{method} {path} {version}\r\n{host}Content-Type: {kind}\r\n{more}"
        if length is not None:
            head += f"Content-Length: {length}\r\n"
        whole = (head + "\r\n").encode("latin-1", "replace") + encoded
        if chance.random() < 0.03:
            return whole + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 2, False, method == "HEAD"
        return whole, answers, must, method == "HEAD"


async def read_answer(reader, no_body):
    """Status, headers and body of an answer; None at a clean end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise ValueError(f"the answer ends within its head: {end.partial[:200]}") from end
        return None
    lines = head[:-4].decode("latin-1").split("\r\n")
    version, status, *_ = lines[0].split(" ")
    headers = {}
    for line in lines[1:]:
        name, colon, text = line.partition(":")
        if not colon or name != name.strip():
            raise ValueError(f"a header {line!r}")
        headers[name.lower()] = text.strip()
    if version not in ("HTTP/1.1", "HTTP/1.0") or int(status) not in STATUSES:
        raise ValueError(f"a first line {lines[0]!r}, then {await reader.read(500)!r}")
    body = b""
    if int(status) == 100:
        return await read_answer(reader, no_body)
    if headers.get("transfer-encoding") == "chunked":
        while size := int((await reader.readuntil(b"\r\n"))[:-2], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    elif "content-length" not in headers and version == "HTTP/1.0":
        body = await reader.read()
        headers["connection"] = "close"
    elif not no_body and int(status) != 204:
        body = await reader.readexactly(int(headers["content-length"]))
    return int(status), headers, body


def check_answer(status, headers, body):
    kind = headers.get("content-type", "")
    if not body:
        return
    if kind.startswith("application/json"):
        known = json.loads(body)
        if status >= 400 and "error" not in known:
            raise ValueError(f"an error without its name: {body[:200]}")
    elif status >= 400:
        raise ValueError(f"an error as {kind}: {body[:200]}")
    if "event-stream" in kind:
        for line in body.split(b"\n"):
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                json.loads(line[6:])


class Fuzz:
    def __init__(self, server, requests, options):
        self.server, self.requests, self.options = server, requests, options
        self.left, self.done, self.statuses, self.failures, self.slowest = options.requests, 0, collections.Counter(), 0, 0.0
        self.host, self.port = "127.0.0.1", int(server.url.rsplit(":", 1)[1])

    def fail(self, what, sent):
        self.failures += 1
        if self.failures <= 10:
            print(f"FAILED: {what}\n  {sent[:1500]!r} … {sent[-1500:]!r}")

    async def connect(self):
        for again in range(50):
            try:
                return await asyncio.open_connection(self.host, self.port, limit=1 << 24)
            except OSError:
                await asyncio.sleep(0.1)
        sys.exit("the server takes no connection")

    async def client(self):
        reader = writer = again = None
        while self.left > 0 or again:
            was_open = writer is not None
            if not was_open:
                reader, writer = await self.connect()
            sent, answers, must, no_body = again or self.requests.one()
            self.left -= again is None
            again = None
            leaves = self.options.chance.random() < 0.04
            begin = time.perf_counter()
            try:
                writer.write(sent[:self.options.chance.randrange(len(sent))] if leaves else sent)
                if leaves:
                    self.statuses["left"] += 1
                    raise ConnectionError
                if not must:
                    writer.write_eof()
                for number in range(answers):
                    answer = await asyncio.wait_for(read_answer(reader, no_body), 120)
                    if answer is None:
                        if must and was_open:  # it may have been idle too long
                            again = sent, answers, must, no_body
                        elif must:
                            self.fail("no answer", sent)
                        self.statuses["closed"] += 1
                        raise ConnectionError
                    self.statuses[answer[0]] += 1
                    check_answer(*answer)
                    if answer[1].get("connection", "").lower() == "close":
                        raise ConnectionError
                if not must:
                    raise ConnectionError
            except (ConnectionError, BrokenPipeError, OSError):
                writer.close()
                writer = None
            except asyncio.TimeoutError:
                self.fail("no end of the answer within 120 s", sent)
                writer.close()
                writer = None
            except (ValueError, KeyError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                self.fail(f"{type(error).__name__} {error}", sent)
                writer.close()
                writer = None
            self.slowest = max(self.slowest, time.perf_counter() - begin)
            self.done += 1
            if self.done % max(1, self.options.requests // 10) == 0:
                print(f"{self.done} requests, {self.server.memory():.0f} MiB, slowest {self.slowest:.1f} s, {dict(self.statuses.most_common())}", flush=True)
        if writer is not None:
            writer.close()


async def main(options):
    errors = open(options.log, "w+", encoding="utf-8", errors="replace") if options.log else tempfile.TemporaryFile("w+", errors="replace")
    server = load.Server(options, "--request-timeout", "20", "--max-body", "1", stderr=errors)
    client = load.Client(server.url)
    models = [one["id"] for one in json.loads((await client.ask("/v1/models")).body)["data"]]
    described = json.loads((await client.ask("/openapi.json")).body)["paths"]
    routes = {}
    for path, methods in described.items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        routes[path] = {name: known.get("type") for name, known in body.get("schema", {}).get("properties", {}).items()}
    options.chance = random.Random(options.seed + 1)
    fuzz = Fuzz(server, Requests(models, routes, random.Random(options.seed)), options)
    await asyncio.gather(*(fuzz.client() for _ in range(options.clients)))
    healthy = (await client.ask("/health")).status == 200
    seconds, status = server.end()
    errors.seek(0)
    sanitizer = [line for line in errors if "ERROR: " in line and "Sanitizer" in line or "runtime error:" in line]
    print(f"{fuzz.done} requests, {fuzz.failures} failures; slowest {fuzz.slowest:.1f} s; at the end healthy: {healthy}, exit status {status}"
          f" after {seconds:.1f} s; reports of sanitizers: {len(sanitizer)}")
    for line in sanitizer[:5]:
        print(line.rstrip())
    return not fuzz.failures and healthy and status == 0 and not sanitizer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--heed", required=True)
    parser.add_argument("--requests", type=int, default=1000000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--server-options", default="")
    parser.add_argument("--log", help="a file for the server's standard error")
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(not asyncio.run(main(parser.parse_args())))
