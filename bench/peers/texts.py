"""Vectors of texts of their true lengths, tokenizing included.

prepare.py writes the texts into the cache. Each function here gives a peer; its work returns the vectors, of length 1, in the order
of the texts. A text is cut after LONGEST tokens, the limit of all-MiniLM-L6-v2. sentence-transformers sorts texts by length and makes
its own batches; for ONNX Runtime and OpenVINO, the same is done here.
"""
import sys
import time

from runtimes import onnxruntime_session, openvino_file, openvino_model, openvino_settings

LONGEST = 256
BATCHES = (32, 64, 128)  # the first is the default of sentence-transformers


def texts_of(cache, count):
    return (cache / "texts.txt").read_text().splitlines()[:count]


def command(model, int8=False):
    """The arguments of heed for the same, without the file of the vectors; it reads texts from stdin."""
    name = model + "-int8" * int8
    return f"embed --model CACHE/{name} --max-length {LONGEST} --normalize --quiet".split() + ["--activations", "int8"] * int8


def in_sentence_transformers(model, count, backend="torch", int8=False, fastest=False):
    """With batches of its default size, or of that of BATCHES which is the fastest here."""
    def encoder_of(cache, threads):
        import sentence_transformers
        import torch

        torch.set_num_threads(threads)
        settings = {}
        if backend == "openvino":
            settings = {"file_name": openvino_file(int8), "ov_config": openvino_settings(threads, int8)}
        encoder = sentence_transformers.SentenceTransformer(str(cache / model), device="cpu", backend=backend, model_kwargs=settings)
        encoder.max_seq_length = LONGEST
        return encoder

    def make(cache, threads):
        encoder, texts = encoder_of(cache, threads), texts_of(cache, count)

        def vectors(size):
            return encoder.encode(texts, batch_size=size, normalize_embeddings=True, show_progress_bar=False)
        size = BATCHES[0]
        if fastest:
            vectors(size)  # what the first call prepares
            times = {}
            for size in BATCHES:
                start = time.perf_counter()
                vectors(size)
                times[size] = time.perf_counter() - start
            size = min(times, key=times.get)
            print(f"sentence-transformers: batches of {size} are the fastest", file=sys.stderr)
        return lambda: vectors(size)
    return make


def by_length(hidden_states, cache, model, count):
    """The work of a runtime: `hidden_states(ids, mask)` in batches of texts of similar lengths, and their means."""
    import numpy
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(cache / model / "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.no_padding()
    texts = texts_of(cache, count)

    def vectors():
        rows = [row.ids for row in tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        means = [None] * len(rows)
        for at in range(0, len(rows), BATCHES[0]):
            part = order[at:at + BATCHES[0]]
            ids, mask = numpy.zeros((2, len(part), len(rows[part[-1]])), dtype=numpy.int64)
            for place, i in enumerate(part):
                ids[place, :len(rows[i])], mask[place, :len(rows[i])] = rows[i], 1
            sums = (mask[:, None].astype(numpy.float32) @ hidden_states(ids, mask))[:, 0]
            for i, vector in zip(part, sums / numpy.linalg.norm(sums, axis=1, keepdims=True)):
                means[i] = vector
        return numpy.stack(means)
    return vectors


def in_onnxruntime(model, count, int8=False):
    def make(cache, threads):
        session = onnxruntime_session(cache / model, threads, int8)
        return by_length(lambda ids, mask: session.run(["last_hidden_state"], {"input_ids": ids, "attention_mask": mask})[0],
                         cache, model, count)
    return make


def in_openvino(model, count, int8=False):
    def make(cache, threads):
        compiled = openvino_model(cache / model, threads, int8)
        return by_length(lambda ids, mask: compiled({"input_ids": ids, "attention_mask": mask})["last_hidden_state"], cache, model, count)
    return make


def peers(model, count, int8=False):
    given = dict(model=model, count=count, int8=int8)
    own = {} if int8 else {"sentence-transformers": in_sentence_transformers(**given),
                           "sentence-transformers, fastest batch": in_sentence_transformers(**given, fastest=True)}
    return own | {"sentence-transformers, OpenVINO": in_sentence_transformers(**given, backend="openvino"),
                  "sentence-transformers, OpenVINO, fastest batch": in_sentence_transformers(**given, backend="openvino", fastest=True),
                  "ONNX Runtime": in_onnxruntime(**given), "OpenVINO": in_openvino(**given)}
