#!/usr/bin/env python3
"""Measures `heed serve` under load, with Python's standard library alone.

    scripts/serve-load.py --heed build/release/heed MODEL...                   load, aborts, drain
    scripts/serve-load.py --heed build/release/heed --do prompt MODEL          a long prompt, three times
    scripts/serve-load.py --heed build/release/heed --do chats MODEL --beside URL
    scripts/serve-load.py --heed build/release/heed MODEL... --server-options "--rows 8"

load: asks every kind of request that the models can answer, first alone, then --requests of them from --clients at a time,
      four for each place of the queue (--queue). Every answer must be the one that it was alone, to the byte but for id,
      created and cached_tokens; a refused request (429) says when to come again, and does. Another process asks /health
      a hundred times a second, each time on a new connection.
aborts: --aborts clients go away at random moments: before, within the header, the body and a stream, after all was sent.
drain: SIGTERM under load. What was sent before it is answered, and the exit status is 0.
prompt: a system prompt of about 1,000 tokens, the same once more, and the same with another question.
chats: --chats streams at a time and one alone, in turns here and at --beside, another server with OpenAI's routes.
texts: vectors of one text a request from 32 clients, in turns here and at --beside (POST /embed).

Prints a line for each number; fails if an answer is lost or differs, a connection remains, or the exit status is not 0.
The processor's other work counts: the load average is printed with the results."""
import argparse
import asyncio
import atexit
import collections
import json
import os
import random
import re
import signal
import statistics
import struct
import subprocess
import sys
import time
import urllib.request

WORDS = ("the of and to in a is that for it was on with as his they be at one have this from or had by hot word but what some "
         "we can out other were all there when up use your how said an each she which do their time if will way about many then "
         "them write would like so these her long make thing see him two has look more day could go come did number sound no "
         "most people my over know water than call first who may down side been now find").split()
CHANGING = re.compile(rb'"(id|created|cached_tokens)":("[^"]*"|\d+)')


def sentence(chance, least, most):
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(least, most)))


def spread(values, unit="ms", scale=1000):
    if not values:
        return "none"
    values = sorted(values)
    at = lambda part: values[min(len(values) - 1, int(part * len(values)))] * scale
    return f"p50 {at(0.5):.1f}, p99 {at(0.99):.1f}, max {values[-1] * scale:.1f} {unit}, of {len(values)}"


class Gone(Exception):
    """The connection ended before the answer."""


class Answer:
    def __init__(self, status, headers):
        self.status, self.headers, self.body = status, headers, b""
        self.first = None  # when the first text of a stream came
        self.last = None

    def comparable(self):
        """The answer without what may change; the events of each choice of a stream in order."""
        body = CHANGING.sub(rb'"\1":0', self.body)
        if "event-stream" not in self.headers.get("content-type", ""):
            return body
        lines = [line for line in body.split(b"\n") if line.startswith(b"data: ")]
        index = lambda line: int((re.search(rb'"index":(\d+)', line) or [0, 99])[1])
        return b"\n".join(sorted(lines, key=index))


class Client:
    """A connection that is kept, and opened anew when the server has closed it."""

    def __init__(self, url):
        self.host, port = url.split("//")[1].rstrip("/").rsplit(":", 1)
        self.port, self.reader, self.writer = int(port), None, None

    async def open(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=1 << 22)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.writer = None

    def bytes_of(self, path, body):
        text = json.dumps(body).encode() if body is not None else b""
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
        return f"{head}Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text

    async def ask(self, path, body=None):
        used = self.writer is not None
        try:
            await self.open()
            self.writer.write(self.bytes_of(path, body))
            return await self.receive()
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self.close()
            if used and isinstance(error, asyncio.IncompleteReadError) and not error.partial:
                return await self.ask(path, body)  # it was idle too long
            raise Gone(str(error)) from error

    async def receive(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        answer = Answer(int(head[0].split()[1]), headers)
        if headers.get("transfer-encoding") == "chunked":
            while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
                part = (await self.reader.readexactly(size + 2))[:-2]
                answer.body += part
                if answer.first is None and re.search(rb'"(content|text)":\s*"[^"]', part):
                    answer.first = time.perf_counter()
            await self.reader.readexactly(2)
        else:
            answer.body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        answer.last = time.perf_counter()
        if headers.get("connection", "").lower() == "close":
            self.close()
        return answer


class Server:
    """heed serve on a free port."""

    def __init__(self, options, *more, stderr=None):
        command = [options.heed, "serve", *options.models, "--port", "0", "--quiet", *more, *options.server_options.split()]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        atexit.register(self.process.kill)  # of what has ended, nothing
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http"):
            sys.exit(f"{' '.join(command)}: expected an address, got {self.url!r}")

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            times = file.read().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def sockets(self):
        folder = f"/proc/{self.process.pid}/fd"
        return sum(os.readlink(f"{folder}/{name}").startswith("socket") for name in os.listdir(folder))

    def level(self, name):
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            found = re.search(rf"^{name} (\d+)", answer.read().decode(), re.M)
        return int(found[1])

    def end(self):
        """Seconds and exit status after SIGTERM."""
        begin = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        return time.perf_counter() - begin, status


def probe(url):
    """Times of /health, until the standard input ends; a process of its own, whose time is not the clients'."""
    times, failed = [], 0
    os.set_blocking(0, False)
    while sys.stdin.buffer.read(1) != b"":
        begin = time.perf_counter()
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=30) as answer:
                answer.read()
        except OSError:
            failed += 1
        times.append(time.perf_counter() - begin)
        time.sleep(max(0.0, 0.01 - times[-1]))
    print(json.dumps([times, failed]))


class Probe:
    def __init__(self, url):
        command = [sys.executable, __file__, "--probe", url]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self):
        times, failed = json.loads(self.process.communicate()[0])
        return spread(times) + (f"; {failed} FAILED" if failed else "")


def requests_for(model, chance):
    """One request of each kind: name, path, body. Not every model can answer each."""
    prompt = {"model": model, "prompt": sentence(chance, 2, 12), "max_tokens": chance.randint(4, 24), "temperature": 0}
    chat = {"model": model, "max_tokens": chance.randint(4, 24), "temperature": 0,
            "messages": [{"role": "user", "content": sentence(chance, 2, 12)}]}
    sampled = {"temperature": 0.8, "top_p": 0.95, "seed": chance.randint(0, 1 << 40)}
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    text, texts = sentence(chance, 3, 40), [sentence(chance, 3, 40) for _ in range(chance.randint(1, 6))]
    return [
        ("completion", "/v1/completions", prompt),
        ("completion sampled", "/v1/completions", prompt | sampled),
        ("completion stream", "/v1/completions", prompt | stream),
        ("completion stop", "/v1/completions", prompt | sampled | {"stop": [" t", "e "], "max_tokens": 40}),
        ("completion n=2", "/v1/completions", prompt | sampled | {"n": 2}),
        ("completion n=2 stream", "/v1/completions", prompt | sampled | stream | {"n": 2}),
        ("completion logprobs", "/v1/completions", prompt | {"logprobs": 3}),
        ("completion list", "/v1/completions", prompt | {"prompt": texts[:3]}),
        ("chat", "/v1/chat/completions", chat),
        ("chat sampled", "/v1/chat/completions", chat | sampled),
        ("chat stream", "/v1/chat/completions", chat | sampled | stream),
        ("embeddings", "/v1/embeddings", {"model": model, "input": texts}),
        ("embed", "/embed", {"model": model, "inputs": text}),
        ("embed_sparse", "/embed_sparse", {"model": model, "inputs": text}),
        ("predict", "/predict", {"model": model, "inputs": text}),
        ("rerank", "/rerank", {"model": model, "query": text, "texts": texts}),
        ("similarity", "/similarity", {"model": model, "inputs": {"source_sentence": text, "sentences": texts}}),
        ("tokenize", "/tokenize", {"model": model, "inputs": text}),
        ("attend", "/attend", {"model": model, "text": sentence(chance, 2, 6), "layers": [0]}),
    ]


async def alone(server, options):
    """What the models can answer, and their answers when nothing else is asked: name, path, body, answer."""
    chance, client, asked, refused = random.Random(options.seed), Client(server.url), [], set()
    names = [model["id"] for model in json.loads((await client.ask("/v1/models")).body)["data"]]
    for _ in range(options.variants):
        for name in names:
            for kind, path, body in requests_for(name, chance):
                if (name, kind) in refused:
                    continue
                answer = await client.ask(path, body)
                if answer.status == 200:
                    asked.append((f"{name} {kind}", path, body, answer.comparable()))
                elif answer.status in (400, 404, 424):
                    refused.add((name, kind))
                else:
                    sys.exit(f"{path} {body}: expected status 200, got {answer.status} {answer.body[:200]}")
    client.close()
    print(f"asked alone: {len(asked)} requests")
    for name in names:
        kinds = dict.fromkeys(kind.removeprefix(name + " ") for kind, *_ in asked if kind.startswith(name + " "))
        print(f"  {name}: {', '.join(kinds)}")
    return asked


class Load:
    """Many clients that ask what was asked alone."""

    def __init__(self, server, options, asked):
        self.server, self.options, self.asked = server, options, asked
        self.chance = random.Random(options.seed + 1)
        self.left, self.answered, self.refused, self.waits = options.requests, 0, 0, collections.Counter()
        self.differ, self.lost, self.times, self.memory = collections.Counter(), collections.Counter(), [], {}
        self.ended = False  # the server has been told to end
        self.under_way = {}  # since when

    async def client(self, number):
        client = Client(self.server.url)
        while self.left > 0 and not self.ended:
            self.left -= 1
            await self.one(client, number, *self.chance.choice(self.asked))
        client.close()

    async def one(self, client, number, kind, path, body, expected):
        while True:
            begin = self.under_way[number] = time.perf_counter()
            try:
                answer = await asyncio.wait_for(client.ask(path, body), 120)
            except (Gone, asyncio.TimeoutError) as error:
                client.close()
                if not self.ended or begin < self.ended:
                    self.lost[f"{kind}: {type(error).__name__} {error}"] += 1
                return
            finally:
                self.under_way.pop(number)
            if answer.status != 429:
                break
            self.refused += 1
            wait = int(answer.headers["retry-after"])
            self.waits[wait] += 1
            if self.ended:
                return
            await asyncio.sleep(wait)
        if answer.status == 503 and self.ended:
            return
        self.answered += 1
        self.times.append(answer.last - begin)
        if answer.status != 200:
            self.lost[f"{kind}: status {answer.status} {answer.body[:200]!r}"] += 1
        elif answer.comparable() != expected:
            self.differ[kind] += 1
            if sum(self.differ.values()) <= 3:
                print(f"DIFFERENT {kind} {body}:\n  {expected[:2000]}\n  {answer.comparable()[:2000]}")
        if self.answered == 1 or self.answered % 2000 == 0:
            self.memory[self.answered] = self.server.memory()

    async def run(self):
        await asyncio.gather(*(self.client(number) for number in range(self.options.clients)))

    def is_good(self):
        for what, counts in (("DIFFERENT", self.differ), ("LOST", self.lost)):
            for kind, count in counts.most_common(10):
                print(f"{what}: {count} x {kind}")
        return not self.differ and not self.lost


async def do_load(options):
    server = Server(options, "--max-queue", str(options.queue))
    first = server.memory()
    asked = await alone(server, options)
    load, health, begin = Load(server, options, asked), Probe(server.url), time.perf_counter()
    print(f"memory: {first:.0f} MiB at the start, {server.memory():.0f} after these")
    used = server.processor_seconds(), time.process_time()
    await load.run()
    seconds = time.perf_counter() - begin
    print(f"load: {load.answered} answers to {options.clients} clients in {seconds:.1f} s ({load.answered / seconds:.0f} a second), "
          f"{load.refused} times refused, Retry-After {dict(sorted(load.waits.items()))}")
    print(f"processor time: {server.processor_seconds() - used[0]:.1f} s of the server, {time.process_time() - used[1]:.1f} s of the clients")
    print(f"health: {health.end()}")
    print(f"answers: {spread(load.times)} (from the accepted asking to the end)")
    print("memory: " + ", ".join(f"{mib:.0f} MiB after {count}" for count, mib in load.memory.items())
          + f", {server.memory():.0f} at the end")
    rows = server.level("heed_requests_running"), server.level("heed_requests_waiting")
    print(f"afterwards: {rows[0]} running, {rows[1]} waiting; differing {sum(load.differ.values())}, lost {sum(load.lost.values())}")
    _, status = server.end()
    return load.is_good() and rows == (0, 0) and status == 0


async def abort(server, asked, chance):
    """Goes away somewhere on the way; returns where."""
    client = Client(server.url)
    _, path, body, _ = chance.choice(asked)
    moment = chance.choice(("before", "header", "body", "sent", "waiting", "answer"))
    if moment == "answer":
        path, body = chance.choice([(path, body) for _, path, body, _ in asked if body.get("stream")] or [(path, body)])
    whole = client.bytes_of(path, body)
    head = whole.index(b"\r\n\r\n") + 4
    end = {"before": 0, "header": chance.randrange(1, head), "body": chance.randrange(head, len(whole))}.get(moment, len(whole))
    try:
        await client.open()
        client.writer.write(whole[:end])
        if moment == "waiting":
            await asyncio.sleep(chance.random() * 0.3)
        if moment == "answer":
            await asyncio.wait_for(client.reader.readexactly(chance.randrange(1, 1200)), 1)  # or the answer is shorter
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        pass
    if client.writer is not None and chance.random() < 0.5:  # by a reset
        client.writer.get_extra_info("socket").setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER
    client.close()
    return moment


async def do_aborts(options):
    server = Server(options, "--max-queue", str(options.queue))
    asked = await alone(server, options)
    await asyncio.sleep(0.2)
    chance, moments = random.Random(options.seed + 2), collections.Counter()
    sockets, memory = server.sockets(), []
    for part in range(2):
        left = [options.aborts]

        async def client():
            while left[0] > 0:
                left[0] -= 1
                moments[await abort(server, asked, chance)] += 1

        await asyncio.gather(*(client() for _ in range(64)))
        begin = time.perf_counter()
        while time.perf_counter() - begin < 30:
            await asyncio.sleep(0.05)
            rows, open_sockets = server.level("heed_requests_running") + server.level("heed_requests_waiting"), server.sockets()
            if rows == 0 and open_sockets <= sockets + 1:  # the connection that asked for the metrics
                break
        memory.append(server.memory())
        print(f"aborts: {options.aborts} clients; {time.perf_counter() - begin:.1f} s later {rows} rows, "
              f"{open_sockets - sockets} more sockets than before, {memory[-1]:.0f} MiB")
    load = Load(server, options, asked)
    load.left = options.clients
    await load.run()
    print(f"afterwards: {load.answered} requests answered; moments {dict(moments)}")
    _, status = server.end()
    return load.is_good() and rows == 0 and open_sockets <= sockets + 1 and status == 0


async def do_drain(options):
    server = Server(options, "--max-queue", str(options.queue))
    asked = await alone(server, options)
    load = Load(server, options, asked)
    load.left = 1 << 30
    running = asyncio.create_task(load.run())
    await asyncio.sleep(3)
    before, open_ones = load.answered, len(load.under_way)
    load.ended = begin = time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    status = await asyncio.to_thread(server.process.wait, 60)
    seconds = time.perf_counter() - begin
    await running
    print(f"drain: {before} answered before SIGTERM, {open_ones} under way then, {load.answered - before} answered after it, "
          f"{sum(load.lost.values())} lost, {sum(load.differ.values())} different; exit status {status} after {seconds:.2f} s")
    return load.is_good() and status == 0


async def do_prompt(options):
    server, chance = Server(options), random.Random(options.seed)
    client, times = Client(server.url), {}
    for turn in range(options.pairs):
        system = sentence(chance, 940, 940)
        for place, question in (("first", "What do the people say?"), ("again", "What do the people say?"),
                                ("with another question", "Who went down to the water?")):
            answer = await client.ask("/v1/chat/completions", {"max_tokens": 4, "temperature": 0, "messages": [
                {"role": "system", "content": system}, {"role": "user", "content": question}]})
            usage = json.loads(answer.body)["usage"]
            times.setdefault(place, []).append((prefill_seconds(server), usage["prompt_tokens"],
                                                usage["prompt_tokens_details"]["cached_tokens"]))
    # The sums of the histogram to single times.
    sums = [row[0] for turn in zip(*times.values()) for row in turn]
    single = [now - before for before, now in zip([0, *sums], sums)]
    medians = {place: statistics.median(single[i::len(times)]) for i, place in enumerate(times)}
    first = medians.pop("first")
    print(f"prompt: {times['first'][0][1]} tokens read in {first * 1000:.1f} ms (medians of {options.pairs})")
    for place, seconds in medians.items():
        _, tokens, cached = times[place][0]
        print(f"prompt {place}: {cached} of {tokens} tokens from the cache, {seconds * 1000:.1f} ms, {100 * seconds / first:.1f} % of that")
    return server.end()[1] == 0


def prefill_seconds(server):
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        return float(re.search(r"^heed_prefill_seconds_sum (\S+)", answer.read().decode(), re.M)[1])


async def chats_at(url, count, tokens, chance):
    """Tokens a second of all, and seconds to the first text of each."""
    async def one(client, question):
        begin = time.perf_counter()
        answer = await client.ask("/v1/chat/completions", {
            "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": question}]})
        used = [int(n) for n in re.findall(rb'"completion_tokens":\s*(\d+)', answer.body)]
        if answer.status != 200 or not used or answer.first is None:
            sys.exit(f"{url}: expected a stream with text and usage, got {answer.status} {answer.body[-500:]}")
        client.close()
        return used[-1], answer.first - begin, answer.last

    begin = time.perf_counter()
    all_ = await asyncio.gather(*(one(Client(url), sentence(chance, 20, 40)) for _ in range(count)))
    seconds = max(last for _, _, last in all_) - begin
    return sum(used for used, _, _ in all_) / seconds, [first for _, first, _ in all_]


async def do_chats(options):
    server = Server(options)
    urls, rates, firsts = [server.url, *options.beside], collections.defaultdict(list), collections.defaultdict(list)
    for turn in range(options.pairs + 1):  # the first to warm up
        for place, url in enumerate(urls):
            for count in (1, options.chats):
                rate, first = await chats_at(url, count, options.tokens, random.Random(1000 * (options.seed + turn) + count))
                if turn:
                    rates[place, count].append(rate)
                    firsts[place, count] += first
    for (place, count), values in rates.items():
        name = urls[place] if place else "heed"
        print(f"chats: {name}, {count} at a time: {statistics.median(values):.1f} tokens a second together "
              f"({', '.join(f'{v:.1f}' for v in values)}); to the first text {spread(firsts[place, count])}")
    return server.end()[1] == 0


async def texts_at(url, texts, clients):
    left = collections.deque(texts)

    async def client():
        connection = Client(url)
        while left:
            answer = await connection.ask("/embed", {"inputs": left.popleft()})
            if answer.status != 200:
                sys.exit(f"{url}/embed: expected status 200, got {answer.status} {answer.body[:200]}")
        connection.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return len(texts) / (time.perf_counter() - begin)


async def do_texts(options):
    server, chance = Server(options), random.Random(options.seed)
    if options.text:
        with open(options.text, encoding="utf-8") as file:
            known = [line.strip() for line in file if line.strip()]
    else:
        known = [sentence(chance, 3, 40) for _ in range(2000)]
    urls, rates = [server.url, *options.beside], collections.defaultdict(list)
    for turn in range(options.pairs + 1):
        texts = chance.choices(known, k=options.texts)
        for place, url in enumerate(urls):
            rate = await texts_at(url, texts, 32)
            if turn:
                rates[place].append(rate)
    for place, values in rates.items():
        print(f"texts: {urls[place] if place else 'heed'}: {statistics.median(values):.0f} texts a second "
              f"({', '.join(f'{v:.0f}' for v in values)})")
    return server.end()[1] == 0


def main():
    if sys.argv[1:2] == ["--probe"]:
        return probe(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--heed", required=True)
    parser.add_argument("--do", default="load,aborts,drain", help="what is measured, of those above; default: %(default)s")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--clients", type=int, help="default: four for each place of the queue")
    parser.add_argument("--variants", type=int, default=12, help="requests of each kind")
    parser.add_argument("--aborts", type=int, default=500, help="clients that go away; twice")
    parser.add_argument("--chats", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="of each chat")
    parser.add_argument("--texts", type=int, default=1000, help="of each turn")
    parser.add_argument("--text", help="a file with a text on each line, for texts")
    parser.add_argument("--pairs", type=int, default=3, help="turns that are counted")
    parser.add_argument("--beside", action="append", default=[], help="the address of another server (repeatable)")
    parser.add_argument("--server-options", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_intermixed_args()
    options.clients = options.clients or 4 * options.queue
    unknown = set(options.do.split(",")) - {"load", "aborts", "drain", "prompt", "chats", "texts"}
    if unknown:
        parser.error(f"--do: expected load, aborts, drain, prompt, chats or texts, got {', '.join(unknown)}")
    sys.stdout.reconfigure(line_buffering=True)
    good = True
    for what in options.do.split(","):
        good = asyncio.run(globals()[f"do_{what}"](options)) and good
        print(f"load average: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
