"""The jobs to compare: each job is a command line of `heed bench` and, for each peer, the same work in that system.

A function makes each peer; it returns the callable without arguments that is timed. Heavy imports are inside these
functions, so that a process loads only its own peer. Models have random weights, made once by prepare.py.
"""
import dataclasses
from pathlib import Path

import texts
from runtimes import onnxruntime_session, openvino_model


@dataclasses.dataclass
class Job:
    title: str
    heed: list  # arguments of `heed bench`; CACHE stands for the folder of models
    peers: dict  # name -> function of (cache folder, threads) that returns the work
    repeats: int | None = None  # of a round, where a repeat takes seconds
    process: bool = False  # `heed` holds the arguments of a whole command instead, which is timed from outside
    texts: int = 0  # that command reads so many texts of the cache; its time with one text is subtracted


def torch_with(threads):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(7)
    return torch


def attention(batch=1, heads=12, head_dim=64, length=1024, causal=False, backward=False):
    arguments = f"attention --batch {batch} --num-heads {heads} --head-dim {head_dim} --length {length}".split()
    arguments += ["--causal"] * causal + ["--backward"] * backward

    def in_torch(cache, threads):
        torch = torch_with(threads)
        q, k, v, d_o = (torch.randn(batch, heads, length, head_dim) for _ in range(4))
        call = torch.nn.functional.scaled_dot_product_attention
        if not backward:
            def forward():
                with torch.no_grad():
                    call(q, k, v, is_causal=causal)
            return forward
        for x in (q, k, v):
            x.requires_grad_()

        def both():
            call(q, k, v, is_causal=causal).backward(d_o)
            for x in (q, k, v):
                x.grad = None
        return both

    title = "attention, " + f"{batch}×" * (batch > 1) + f"{heads}×{head_dim}, T={length}" + ", causal" * causal
    return Job(title, arguments, {"PyTorch": in_torch})


def attention_kind(kind, heads=8, head_dim=64, length=4096, stride=64, backward=True):
    """Causal linear and sparse attention, which PyTorch has no function for: linear by chunks of 128 positions with running
    sums of the keys, sparse as attention with a mask of the pattern."""
    arguments = f"attention --pattern {kind} --num-heads {heads} --head-dim {head_dim} --length {length} --causal".split()
    arguments += ["--stride", str(stride)] * (kind != "linear") + ["--backward"] * backward

    def in_torch(cache, threads):
        torch = torch_with(threads)
        q, k, v, d_o = (torch.randn(1, heads, length, head_dim) for _ in range(4))
        place = torch.arange(length)
        distance = place[:, None] - place[None, :]
        near = distance < stride if kind == "strided" else place[:, None] // stride == place[None, :] // stride
        far = distance % stride == 0 if kind == "strided" else (place[None, :] % stride == stride - 1).expand(length, -1)
        mask = (distance >= 0) & (near | far)
        below = torch.ones(128, 128).tril()

        def linear(q, k, v):
            q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
            v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # the last column sums the weights
            q, k, v = (x.unflatten(2, (-1, 128)) for x in (q, k, v))
            sums = (k.transpose(-1, -2) @ v).cumsum(2)
            before = torch.cat([torch.zeros_like(sums[:, :, :1]), sums[:, :, :-1]], 2)
            y = (q @ before + (q @ k.transpose(-1, -2) * below) @ v).flatten(2, 3)
            return y[..., :-1] / y[..., -1:]

        def call():
            if kind == "linear":
                return linear(q, k, v)
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        if not backward:
            def forward():
                with torch.no_grad():
                    call()
            return forward
        for x in (q, k, v):
            x.requires_grad_()

        def both():
            call().backward(d_o)
            for x in (q, k, v):
                x.grad = None
        return both

    return Job(f"{kind} attention, {heads}×{head_dim}, T={length}, causal", arguments, {"PyTorch": in_torch})


def recurrent(cell, batch=32, length=64, size=256, backward=True):
    arguments = f"recurrent --cell {cell} --batch {batch} --length {length} --input-size {size} --hidden {size}".split()
    arguments += ["--backward"] * backward

    def in_torch(cache, threads):
        torch = torch_with(threads)
        layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](size, size, batch_first=True)
        x, d_y = torch.randn(batch, length, size), torch.randn(batch, length, size)
        if not backward:
            def forward():
                with torch.no_grad():
                    layer(x)
            return forward
        x.requires_grad_()

        def both():
            layer(x)[0].backward(d_y)
            layer.zero_grad()
            x.grad = None
        return both

    return Job(f"{cell.upper()}, {batch}×{length}, {size} → {size}", arguments, {"PyTorch": in_torch})


def gemm(m, n, k, dtype="f32"):
    def in_torch(cache, threads):
        torch = torch_with(threads)
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        x = torch.randn(m, k).to(kind)
        copies = 1 if 2 * m > 16 * kind.itemsize else int(1 + 545e6 / (n * k * kind.itemsize))
        weights = [torch.randn(n, k).to(kind) for _ in range(copies)]
        turn = [0]

        def product():
            with torch.no_grad():
                torch.nn.functional.linear(x, weights[turn[0] % copies])
            turn[0] += 1
        return product

    return Job(f"linear layer, [{m}, {k}] × [{k}, {n}], {dtype}", f"gemm --m {m} --n {n} --k {k} --dtype {dtype}".split(),
               {"PyTorch": in_torch})


def encode(batch, length, int8=False):
    def ids(torch):
        return torch.randint(10, 30000, (batch, length))

    def in_torch(cache, threads):
        torch = torch_with(threads)
        import transformers

        model = transformers.AutoModel.from_pretrained(cache / "bert-base").eval()
        tokens, mask = ids(torch), torch.ones(batch, length, dtype=torch.long)

        def forward():
            with torch.inference_mode():
                model(input_ids=tokens, attention_mask=mask)
        return forward

    def inputs():
        import numpy

        return {"input_ids": numpy.random.default_rng(7).integers(10, 30000, (batch, length)),
                "attention_mask": numpy.ones((batch, length), dtype=numpy.int64)}

    def in_onnxruntime(cache, threads):
        session = onnxruntime_session(cache / "bert-base", threads, int8)
        given = inputs()
        return lambda: session.run(None, given)

    def in_openvino(cache, threads):
        given = inputs()
        model = openvino_model(cache / "bert-base", threads, int8, {name: x.shape for name, x in given.items()})
        return lambda: model(given)

    work = f"--batch {batch} --length {length}".split()
    runtimes = {"ONNX Runtime": in_onnxruntime, "OpenVINO": in_openvino}
    if int8:
        return Job(f"BERT-base, {batch}×{length}, int8",
                   ["encode", "--model", "CACHE/bert-base-int8", "--activations", "int8", *work], runtimes)
    return Job(f"BERT-base, {batch}×{length}", ["encode", "--model", "CACHE/bert-base", *work], {"PyTorch": in_torch} | runtimes)


def embed(model, title, count, int8=False):
    """Vectors of texts of the cache, tokenizing included."""
    return Job(f"{title}, {count:,} texts" + ", int8" * int8, texts.command(model, int8), texts.peers(model, count, int8),
               repeats=1, process=True, texts=count)


def encode_images(batch):
    def in_torch(cache, threads):
        torch = torch_with(threads)
        import transformers

        model = transformers.AutoModel.from_pretrained(cache / "vit-base").eval()
        pixels = torch.randn(batch, 3, 224, 224)

        def forward():
            with torch.inference_mode():
                model(pixel_values=pixels)
        return forward

    def inputs():
        import numpy

        return {"pixel_values": numpy.random.default_rng(7).standard_normal((batch, 3, 224, 224), dtype=numpy.float32)}

    def in_onnxruntime(cache, threads):
        session, given = onnxruntime_session(cache / "vit-base", threads), inputs()
        return lambda: session.run(None, given)

    def in_openvino(cache, threads):
        given = inputs()
        model = openvino_model(cache / "vit-base", threads, shapes={name: x.shape for name, x in given.items()})
        return lambda: model(given)

    return Job(f"ViT-B/16, {batch} image" + "s" * (batch > 1), f"encode --model CACHE/vit-base --batch {batch}".split(),
               {"PyTorch": in_torch, "ONNX Runtime": in_onnxruntime, "OpenVINO": in_openvino})


def transcribe(new_tokens=100, int8=False):
    """Of 30 s, features given: heed and transformers are made to write all tokens. CTranslate2, which knows no least number and writes half of max_length,
    is checked to have done so, as random weights do."""
    def features(shape=(1, 80, 3000)):
        import numpy

        return numpy.random.default_rng(7).standard_normal(shape, dtype=numpy.float32)

    def in_transformers(cache, threads):
        torch = torch_with(threads)
        import transformers

        model = transformers.WhisperForConditionalGeneration.from_pretrained(cache / "whisper-base").eval()
        given, start = torch.from_numpy(features()), torch.tensor([[50258]])
        options = dict(do_sample=False, num_beams=1, max_new_tokens=new_tokens, min_new_tokens=new_tokens)
        plain = transformers.GenerationMixin.generate  # without Whisper's own rules of windows and languages

        def decode():
            with torch.inference_mode():
                plain(model, input_features=given, decoder_input_ids=start, **options)
        return decode

    def in_ctranslate2(cache, threads):
        import ctranslate2

        model = ctranslate2.models.Whisper(str(cache / "whisper-base-ctranslate2"), device="cpu",
                                           compute_type="int8" if int8 else "float32", inter_threads=1, intra_threads=threads)
        given = ctranslate2.StorageView.from_array(features())

        def decode():
            found = model.generate(given, [[50258]], beam_size=1, max_length=2 * new_tokens, suppress_blank=False,
                                   suppress_tokens=[])
            assert len(found[0].sequences_ids[0]) == new_tokens, len(found[0].sequences_ids[0])
        return decode

    model, rounded = ("whisper-base-int8", " --activations int8") if int8 else ("whisper-base", "")
    return Job(f"Whisper base, 30 s, greedy, {new_tokens} tokens" + ", int8" * int8,
               f"translate --model CACHE/{model} --batch 1 --new-tokens {new_tokens}{rounded}".split(),
               {"CTranslate2": in_ctranslate2} if int8 else {"transformers": in_transformers, "CTranslate2": in_ctranslate2})


def generate(dtype, prompt=8, new_tokens=32):
    def in_transformers(cache, threads):
        torch = torch_with(threads)
        import transformers

        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        model = transformers.AutoModelForCausalLM.from_pretrained(cache / "gpt2", dtype=kind).eval()
        ids = torch.randint(10, 50000, (1, prompt))
        options = dict(do_sample=False, num_beams=1, max_new_tokens=new_tokens, min_new_tokens=new_tokens,
                       pad_token_id=0, attention_mask=torch.ones_like(ids))

        def decode():
            with torch.inference_mode():
                model.generate(ids, **options)
        return decode

    return Job(f"GPT-2 124M {dtype}, greedy, {new_tokens} tokens",
               f"generate --model CACHE/gpt2 --dtype {dtype} --length {prompt} --new-tokens {new_tokens}".split(),
               {"transformers": in_transformers})


def quantized(file, prompt, new_tokens):
    """A GGUF file of the cache, with activations in int8, as llama.cpp computes. Reading a prompt ends with one token."""
    def in_llama_cpp(cache, threads):
        import random

        import llama_cpp

        model = llama_cpp.Llama(str(cache / file), n_ctx=prompt + new_tokens + 8, n_batch=512, n_threads=threads,
                                n_threads_batch=threads, verbose=False)
        chance = random.Random(7)
        ids = [chance.randrange(100, 40000) for _ in range(prompt)]

        def decode():
            model.reset()
            model.eval(ids)
            for _ in range(new_tokens - 1):
                model.eval([model.sample(temp=0.0)])
        return decode

    what = f"prompt of {prompt}" if new_tokens == 1 else f"{new_tokens} tokens after {prompt}"
    return Job(f"{file}, {what}, int8 activations",
               f"generate --model CACHE/{file} --activations int8 --length {prompt} --new-tokens {new_tokens}".split(),
               {"llama.cpp": in_llama_cpp})


def translate(beams, batch=8, length=24, new_tokens=24, int8=False):
    def in_transformers(cache, threads):
        torch = torch_with(threads)
        import transformers

        model = transformers.MarianMTModel.from_pretrained(cache / "marian").eval()
        ids = torch.randint(10, 58000, (batch, length))
        options = dict(do_sample=False, num_beams=beams, max_new_tokens=new_tokens, min_new_tokens=new_tokens,
                       attention_mask=torch.ones_like(ids))

        def decode():
            with torch.inference_mode():
                model.generate(ids, **options)
        return decode

    def in_ctranslate2(cache, threads):
        import ctranslate2
        import random

        translator = ctranslate2.Translator(str(cache / "marian-ctranslate2"), device="cpu",
                                            compute_type="int8" if int8 else "float32",
                                            inter_threads=1, intra_threads=threads)
        chance = random.Random(7)
        texts = [[f"t{chance.randrange(10, 58000)}" for _ in range(length)] for _ in range(batch)]
        return lambda: translator.translate_batch(texts, beam_size=beams, max_decoding_length=new_tokens,
                                                  min_decoding_length=new_tokens)

    model, rounded = ("marian-int8", " --activations int8") if int8 else ("marian", "")
    return Job(f"Marian 6+6×512, {batch} sentences × {new_tokens} tokens, beam {beams}" + ", int8" * int8,
               f"translate --model CACHE/{model} --batch {batch} --length {length} --new-tokens {new_tokens} "
               f"--num-beams {beams}{rounded}".split(),
               {"CTranslate2": in_ctranslate2} if int8 else
               {"transformers": in_transformers, "CTranslate2": in_ctranslate2})


def train(batch=4, length=256):
    def in_torch(cache, threads, compiled=False):
        torch = torch_with(threads)
        import transformers

        model = transformers.AutoModelForCausalLM.from_pretrained(cache / "gpt2").train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        ids = torch.randint(10, 50000, (batch, length))

        def loss_of(tokens):
            return model(input_ids=tokens, labels=tokens, use_cache=False).loss
        if compiled:
            loss_of = torch.compile(loss_of)

        def step():
            loss_of(ids).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return step

    return Job(f"GPT-2 124M training step, {batch}×{length}",
               f"train --model CACHE/gpt2 --batch {batch} --length {length}".split(),
               {"PyTorch": in_torch,
                "torch.compile": lambda cache, threads: in_torch(cache, threads, compiled=True)},
               repeats=1)


def info():
    def in_transformers(cache, threads):
        import transformers

        return lambda: transformers.AutoModelForCausalLM.from_pretrained(cache / "gpt2").num_parameters()

    return Job("GPT-2 124M, 498 MB: open and describe", ["models", "CACHE/gpt2"], {"transformers": in_transformers},
               process=True)


def attention_jobs():
    shapes = {
        "T1024": dict(length=1024), "T1024-causal": dict(length=1024, causal=True),
        "T4096": dict(length=4096), "T4096-causal": dict(length=4096, causal=True),
        "8xT128": dict(batch=8, length=128),
        "d128-T4096": dict(head_dim=128, length=4096), "d128-T4096-causal": dict(head_dim=128, length=4096, causal=True),
    }
    for name, shape in shapes.items():
        yield f"attention-{name}", attention(**shape)
        yield f"attention-{name}-backward", attention(**shape, backward=True)


JOBS: dict[str, Job] = {
    **dict(attention_jobs()),
    **{f"attention-{kind}" + "-backward" * backward: attention_kind(kind, backward=backward)
       for kind in ("linear", "strided", "fixed") for backward in (False, True)},
    **{f"recurrent-{cell}-{batch}" + "-backward" * backward: recurrent(cell, batch, backward=backward)
       for cell in ("lstm", "gru") for batch in (1, 32) for backward in (False, True)},
    "gemm-512": gemm(512, 3072, 768), "gemm-1": gemm(1, 3072, 768), "gemm-1-bf16": gemm(1, 3072, 768, "bf16"),
    "train-gpt2": train(),
    **{f"bert-{batch}x{length}" + "-int8" * int8: encode(batch, length, int8)
       for int8 in (False, True) for batch, length in ((1, 32), (1, 128), (8, 128))},
    **{f"texts-{model}" + "-int8" * int8: embed(model, title, count, int8)
       for model, title, count in (("minilm", "MiniLM", 2000), ("bert-base", "BERT-base", 500)) for int8 in (False, True)},
    "generate-gpt2": generate("f32"), "generate-gpt2-bf16": generate("bf16"),
    **{f"{name}-{kind}": quantized(f"{name}.gguf", *sizes) for name in ("smollm2-q4_1",)
       for kind, sizes in {"decode": (8, 64), "prompt": (512, 1)}.items()},
    "translate-beam1": translate(1), "translate-beam4": translate(4), "translate-beam4-int8": translate(4, int8=True),
    "vit-1": encode_images(1), "vit-8": encode_images(8), "whisper-base": transcribe(), "whisper-base-int8": transcribe(int8=True),
    "info-gpt2": info(),
}


def default_cache() -> Path:
    import os

    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "heed-bench"
