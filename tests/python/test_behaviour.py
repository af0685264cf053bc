"""The interpreter: signals, threads, memory, fork."""
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import heed


def test_ctrl_c_ends_a_call_and_leaves_the_interpreter_sound():
    program = textwrap.dedent("""
        import heed, os, signal, sys, threading, time
        model = heed.load("shakespeare")
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        began = time.time()
        try:
            model.encode(["to be or not to be " * 12] * 200000)
        except KeyboardInterrupt:
            late = time.time() - began - 0.5
            assert model.generate("ROMEO:", max_new_tokens=3)
            print("late", late)
            sys.exit(0 if late < 0.3 else 3)
        sys.exit(4)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_other_threads_run_meanwhile(decoder):
    ticks = []
    ended = threading.Event()

    def tick():
        while not ended.is_set():
            ticks.append(time.time())
            time.sleep(0.005)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.time()
    decoder.generate("ROMEO:", max_new_tokens=200)
    took = time.time() - began
    ended.set()
    thread.join()
    assert len(ticks) > 5 or took < 0.05


def test_two_threads_give_the_same_bits(decoder, masked):
    texts = [f"number {n} of many texts" for n in range(64)]
    alone = masked.encode(texts), decoder.forward("ROMEO:")["logits"]
    found = [None, None]

    def encode():
        for _ in range(5):
            found[0] = masked.encode(texts)

    def run():
        for _ in range(50):
            found[1] = decoder.forward("ROMEO:")["logits"]

    threads = [threading.Thread(target=encode), threading.Thread(target=run)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(found[0], alone[0])
    np.testing.assert_array_equal(found[1], alone[1])


def _vectors_of_a_child(queue):
    queue.put(heed.load("reviews-mlm").encode("A great film."))


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes(masked, method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_vectors_of_a_child, args=(queue,))
    child.start()
    vectors = queue.get(timeout=60)
    child.join()
    np.testing.assert_array_equal(vectors, masked.encode("A great film."))


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_leaks(decoder):
    def round_trip():
        decoder.forward({"input_ids": np.array([[1, 2, 3]])})
        decoder.run_with_cache({"input_ids": np.array([[1, 2, 3]])}, names=["blocks.0.attn.hook_pattern"])
        decoder.run_with_hooks({"input_ids": np.array([[1, 2, 3]])}, fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook: z)])

    for _ in range(300):
        round_trip()
    gc.collect()
    before = _resident()
    for _ in range(2000):
        round_trip()
    gc.collect()
    assert _resident() - before < 4 << 20


def test_results_outlive_their_model():
    model = heed.load("shakespeare")
    weights = model.parameters()
    name, array = next(iter(weights.items()))
    copy = array.copy()
    del model, weights
    gc.collect()
    np.testing.assert_array_equal(array, copy)
    with pytest.raises(ValueError):
        array[...] = 0


@pytest.mark.parametrize("make", [
    lambda ids: ids, lambda ids: ids.tolist(), lambda ids: np.asfortranarray(np.repeat(ids, 2, 0))[:1],
    lambda ids: np.ascontiguousarray(ids[:, ::-1])[:, ::-1],
    lambda ids: np.frombuffer(b"x" + ids.tobytes(), np.uint8)[1:].view(np.int64)[None],
], ids=["plain", "list", "fortran", "reversed", "unaligned"])
def test_arrays_of_any_layout(decoder, make):
    ids = np.array([decoder.tokenizer.encode("ROMEO:").ids])
    np.testing.assert_array_equal(decoder.forward({"input_ids": make(ids)})["logits"], decoder.forward({"input_ids": ids})["logits"])


def test_tensors_of_torch(decoder):
    torch = pytest.importorskip("torch")
    ids = torch.tensor([decoder.tokenizer.encode("ROMEO:").ids])
    np.testing.assert_array_equal(decoder.forward({"input_ids": ids})["logits"], decoder.forward("ROMEO:")["logits"])
