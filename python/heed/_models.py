"""Models as classes: what heed.load() returns."""
from __future__ import annotations

import difflib
import json
import queue
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed import _heed
from heed._checks import checked
from heed._checks import pairs as _two
from heed._heed import GenerationOptions, Tokenizer
from heed._names import ActivationCache, Names

Array = NDArray[np.float32]
Message = Mapping[str, Any]
Hooks = Sequence[tuple[str, Callable[..., Any]]]


class HookPoint:
    """What a hook learns of the value that it gets: `name` as the hook was registered for it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"HookPoint({self.name!r})"


def _list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else [str(text) for text in texts]


def _each(texts: str | Sequence[str], function: Callable[[list[str]], Any]) -> Any:
    """What the function makes of a list of texts; of one alone, its part."""
    return function(_list(texts))[0] if isinstance(texts, str) else function(_list(texts))


@contextmanager
def _bar(what: str, shown: bool) -> Iterator[Any]:
    """What counts the work that is done, `(done, total, unit)`, in a progress bar where tqdm is installed; None without."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        shown = False
    if not shown:
        yield None
        return
    with tqdm(desc=what, leave=False, delay=0.5) as bar:
        def show(done: int, total: int, unit: str) -> None:
            bar.total, bar.unit = total, unit
            bar.update(done - bar.n)
        yield show


@checked
class Model:
    """An opened model. Its class says what it can do: Decoder, Encoder or EncoderDecoder.

    Several threads may use one at once. Texts that are no str are a TypeError, what the model cannot do is a heed.Error.

    >>> heed.load("shakespeare")
    <heed.Decoder 'shakespeare': a gpt2 decoder, 1.8M parameters, can continue text, embed texts, show attention>
    """

    def __init__(self, opened: _heed.LoadedModel, name: str, options: Mapping[str, Any] = {}) -> None:
        self._opened = opened
        self._options = {"steer": (), **options}
        self.name = name

    # --- what it is
    @property
    def directory(self) -> str:
        """The folder or GGUF file of the model."""
        return self._opened.directory

    @property
    def config(self) -> dict[str, Any]:
        """config.json."""
        return json.loads(self._opened.config)

    @property
    def tasks(self) -> list[str]:
        """What the model can do, its main task first."""
        return self._opened.tasks

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, under the names of `tokenizers`: encode(text).ids, decode(ids), token_to_id(token)."""
        return Tokenizer(self._opened)

    @property
    def warnings(self) -> list[str]:
        """Settings and tensors of the files that are not used."""
        return self._opened.warnings

    def parameters(self) -> dict[str, NDArray[Any]]:
        """The weights by name, read-only views of the model's memory; bfloat16 and quantized ones become float32.

        >>> heed.load("shakespeare").parameters()["transformer.wpe.weight"].shape
        (256, 192)
        """
        return self._opened.parameters()

    def num_parameters(self) -> int:
        """The number of weights."""
        return self._opened.parameter_count()

    def __repr__(self) -> str:
        count = self.num_parameters()
        size = f"{count / 1e6:.1f}M" if count < 1e9 else f"{count / 1e9:.2f}B"
        return f"<heed.{type(self).__name__} {self.name!r}: {self._opened.kind}, {size} parameters, can {', '.join(self.tasks)}>"

    # --- vectors
    def encode(self, texts: str | Sequence[str], *, prompt_name: str | None = None, prompt: str | None = None,
               normalize_embeddings: bool = False, truncate_dim: int | None = None,
               batch_size: int | None = None, batch_tokens: int = 1024, show_progress_bar: bool = False) -> Array:
        """Vectors of texts, float32 [N, D], or [D] of one text, as the model's modules.json says.

        prompt_name and prompt put a text before each one (`model.prompts`). truncate_dim keeps the first numbers of each
        vector (Matryoshka); they are scaled to unit length where normalize_embeddings asks for it. A pass has at most
        batch_tokens, and at most batch_size texts of the model's length; results do not depend on it. Texts that are too long
        are cut, with a warning. A heed.Error for another prompt_name, a ValueError for a truncate_dim that the model does not
        have.

        >>> heed.load("reviews-mlm").encode(["A great film."]).shape
        (1, 256)
        """
        given, parts = _list(texts), []
        if batch_size is not None:
            if batch_size < 1:
                raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
            batch_tokens = min(batch_tokens, batch_size * (self._opened.max_positions or batch_tokens))
        with _Warnings() as warn, _bar("encode", show_progress_bar) as progress:
            size = _SHOWN if progress else max(len(given), 1)
            for first in range(0, max(len(given), 1), size):
                def told(index: int, message: str, first: int = first) -> None:
                    warn(first + index, message)
                parts.append(self._opened.encode(given[first:first + size], prompt_name, prompt, normalize_embeddings and truncate_dim is None,
                                                 batch_tokens, told))
                if progress:
                    progress(min(first + size, len(given)), len(given), "texts")
        vectors = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if truncate_dim is not None:
            if not 1 <= truncate_dim <= vectors.shape[1]:
                raise ValueError(f"truncate_dim: expected 1 to {vectors.shape[1]}, got {truncate_dim}")
            vectors = np.ascontiguousarray(vectors[:, :truncate_dim])
            if normalize_embeddings:
                vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_images(self, files: str | Sequence[str]) -> Array:
        """Vectors of image files, float32 [N, D], or [D] of one. A heed.Error for a file that is no image, and a model of texts.

        >>> heed.load("cifar10").encode_images(["tests/fixtures/image/pictures/wide.png"]).shape
        (1, 128)
        """
        return _each(files, self._opened.encode_images)

    def token_embeddings(self, texts: str | Sequence[str]) -> Any:
        """The last hidden state of every token: (tokens, float32 [T, D]) of a text, or a list of them.

        >>> tokens, vectors = heed.load("reviews-mlm").token_embeddings("A great film.")
        >>> len(tokens) == len(vectors), vectors.shape[1]
        (True, 256)
        """
        return _each(texts, self._opened.token_embeddings)

    @property
    def prompts(self) -> dict[str, str]:
        """The named prompts of encode()."""
        return self._opened.prompts

    def similarity(self, a: Any, b: Any) -> Array:
        """Similarities float32 [N, M] of vectors [N, D] and [M, D], by the model's function: cosine unless its files say dot.

        A TypeError for what is no array of numbers, a heed.Error for other shapes.

        >>> m = heed.load("reviews-mlm")
        >>> v = m.encode(["A great film.", "A wonderful movie.", "Do not watch it."])
        >>> m.similarity(v[0], v).argsort().tolist()
        [[2, 1, 0]]
        """
        return _heed.similarity(a, b, self._opened.similarity)

    # --- inside
    def inputs(self, text: str, pair: str | None = None, target: str | None = None) -> dict[str, NDArray[Any]]:
        """The arrays that forward() takes, of a text, a pair, or a text and its target; also of an image or sound file.

        >>> {name: array.shape for name, array in heed.load("reviews").inputs("A great film.").items()}
        {'input_ids': (1, 6)}
        """
        return self._opened.inputs(text, pair, target)

    def forward(self, inputs: str | Mapping[str, Any] = {}, **more: Any) -> dict[str, NDArray[Any]]:
        """One pass. Arrays in and out have transformers' names: input_ids int64 [B, T], logits float32 [B, T, V].

        inputs is a text, or arrays by name (NumPy, DLPack, the buffer protocol, lists; int64 or int32 of ids), which may be named as
        arguments too. What comes out is the caller's. A TypeError for types of numbers that heed does not have, a heed.Error for
        other names, shapes and ids.

        >>> lm = heed.load("shakespeare")
        >>> lm.forward(input_ids=[[1, 2, 3]])["logits"].shape
        (1, 3, 66)
        """
        return self._opened.forward(self._inputs(inputs, more), [], [], [], True, True)[0]

    __call__ = forward

    def _inputs(self, inputs: str | Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(inputs, str):
            return self.inputs(inputs, **more)
        if not isinstance(inputs, Mapping):
            raise TypeError(f"inputs: expected a str or arrays by name, got {type(inputs).__name__}")
        return {**inputs, **more}

    def _names(self) -> Names:
        if not hasattr(self, "_hook_names"):
            self._hook_names = Names(self._stack, *self._opened.layers(self._stack))
        return self._hook_names

    _stack = "encoder"

    def run_with_cache(self, inputs: str | Mapping[str, Any], names: str | Sequence[str] | None = None,
                       heads: Sequence[int] = (), **more: Any) -> tuple[Array | None, ActivationCache]:
        """A pass whose inner values are kept: (logits, cache).

        names are TransformerLens' (`blocks.3.attn.hook_pattern`) or heed's taps (`decoder.layers.3.self_attn.weights`), with
        `*` for any characters; without, the residual stream, queries, keys, values, scores, patterns and outputs of all
        layers. Only what is asked for is computed beyond the plain pass. heads: of these alone, in increasing order. Arrays are
        float32, read-only, in TransformerLens' order: pattern [B, H, T, S]; q, k, v, z [B, T, H, d]; hook_resid_pre [B, T, D]. A
        heed.Error for a name or a head that the model does not have.

        >>> logits, cache = heed.load("shakespeare").run_with_cache("ROMEO:", names=["blocks.3.attn.hook_pattern"], heads=[0])
        >>> logits.shape, cache["pattern", 3].shape
        ((1, 6, 66), (1, 1, 6, 6))
        """
        known = self._names()
        asked = [names] if isinstance(names, str) else names
        hooks = known.usual() if asked is None else [hook for name in asked for hook in known.find(name)]
        outputs, kept = self._opened.forward(self._inputs(inputs, more), [hook.tap for hook in hooks],
                                             sorted(int(head) for head in heads), [], asked is not None, True)
        values: dict[str, Array] = {}
        for hook in hooks:
            if hook.tap in kept:
                values[hook.name] = hook.view(kept[hook.tap])
        for tap, value in kept.items():  # of patterns
            if not any(hook.tap == tap for hook in hooks):
                values[tap] = value
        return outputs.get("logits"), ActivationCache(values)

    def run_with_hooks(self, inputs: str | Mapping[str, Any], fwd_hooks: Hooks = (), **more: Any) -> Array | None:
        """A pass in which hooks read and replace values: the logits, float32 [B, T, V].

        Each hook is called as `hook(value, hook=point)` with a float32 array of its own, in the order of axes of
        run_with_cache(). What it returns replaces the value; without a result, what it has written into the array does.
        An exception of a hook leaves this call. A result of another shape is a ValueError, a name that matches nothing a
        heed.Error.

        >>> def without(z, hook):
        ...     z[:, :, 2] = 0
        >>> lm = heed.load("shakespeare")
        >>> lm.run_with_hooks("ROMEO:", fwd_hooks=[("blocks.1.attn.hook_z", without)]).shape
        (1, 6, 66)
        """
        return self._opened.forward(self._inputs(inputs, more), [], [], self._hooks(fwd_hooks), True, True)[0].get("logits")

    def _hooks(self, fwd_hooks: Hooks) -> list[tuple[str, Callable[[str, Array], Any]]]:
        known = self._names()
        hooks = []
        for name, function in _two("fwd_hooks", fwd_hooks, "(name, function)"):
            if not callable(function):
                raise TypeError(f"fwd_hooks: {name}: expected a function, got {type(function).__name__}")
            for hook in known.find(name):
                if not hook.writable:
                    raise ValueError(f"{name}: read it with run_with_cache(); what the model reads is {self._stack}.embed")
                hooks.append((hook.tap, _listener(hook.name, hook.view, function)))
        return hooks

    def steered(self, steering: Any, strength: float = 1.0, layers: tuple[int, int | None] = (0, None)) -> Any:
        """The model with vectors added to its residual stream in every pass: a model of its own, whose file is opened again.

        steering: what heed.steer() returned, or a file of it. layers: of the vectors, from the first to before the second. A
        heed.Error for vectors of another model. Its example is that of heed.steer().
        """
        if self._options["steer"]:
            raise ValueError("steered: the model has vectors already (steer it as it was before)")
        if isinstance(steering, (str, Path)):
            return load(self.name, **{**self._options, "steer": {str(steering): strength}, "steer_layers": layers})
        if not hasattr(steering, "save"):
            raise TypeError(f"steering: expected what heed.steer() returns, or a file, got {type(steering).__name__}")
        with tempfile.TemporaryDirectory() as folder:
            steering.save(Path(folder) / "steering.safetensors")
            return self.steered(Path(folder) / "steering.safetensors", strength, layers)

    def attend(self, text: str, **options: Any) -> Any:
        """heed.attend() of this model."""
        from heed._analysis import attend
        return attend(self, text, **options)


def _listener(name: str, view: Callable[[Array], Array], function: Callable[..., Any]) -> Callable[[str, Array], Any]:
    def call(tap: str, value: Array) -> Any:
        answer = function(view(value), hook=HookPoint(name if "*" not in name else tap))
        return None if answer is None else view(np.asarray(answer, dtype=value.dtype))
    return call


class _Warnings:
    """Gathers the warnings of a call's texts; says each kind once, with the number of its texts."""

    def __init__(self) -> None:
        self._texts: dict[str, list[int]] = {}

    def __enter__(self) -> Callable[[int, str], None]:
        return lambda index, message: self._texts.setdefault(message, []).append(index)

    def __exit__(self, *_: Any) -> None:
        for message, indices in self._texts.items():
            others = f" and {len(indices) - 1} more" if len(indices) > 1 else ""
            warnings.warn(f"text {indices[0]}{others}: {message}", stacklevel=4)


_SHOWN = 512  # texts between looks of a progress bar


@checked
class _Generates(Model):
    def generation_options(self, **settings: Any) -> GenerationOptions:
        """The model's own settings, changed by transformers' names: max_new_tokens, do_sample, temperature, num_beams, ...

        A TypeError for a name that is no setting, and for a value of another type.

        >>> heed.load("shakespeare").generation_options(max_new_tokens=8).max_new_tokens
        8
        """
        options = self._opened.generation
        if "early_stopping" in settings and isinstance(settings["early_stopping"], (bool, str)):
            kind = _heed.EarlyStopping
            settings["early_stopping"] = {True: kind.yes, False: kind.no, "never": kind.never}[settings["early_stopping"]]
        for name, value in settings.items():
            if not hasattr(type(options), name):
                near = difflib.get_close_matches(name, [one for one in dir(type(options)) if one[0] != "_"], 1, 0.5)
                raise TypeError(f"{name}: no setting of generation" + (f" (did you mean {near[0]}?)" if near else ""))
            try:
                setattr(options, name, value)
            except TypeError:
                raise TypeError(f"{name}: expected another type than {type(value).__name__}") from None
        return options


@checked
class Decoder(_Generates):
    """A language model that continues texts."""
    _stack = "decoder"

    def generate(self, prompts: str | Sequence[str], *, stop_strings: Sequence[str] = (), json_schema: Any = None,
                 regex: str | None = None, stream: bool = False, fwd_hooks: Hooks = (), **settings: Any) -> Any:
        """Continues a prompt, or each of several; the new text alone.

        settings are transformers' names over the model's own (generation_options()). With num_return_sequences each
        prompt has a list. json_schema (a dict or JSON) and regex constrain the text. stream=True: an iterator over the
        parts of the text of one prompt as they are final. fwd_hooks are those of run_with_hooks(), of every step: the prompt's
        tokens, then one at a time. A heed.Error for a setting out of its range, and a prompt that leaves no room.

        >>> heed.load("shakespeare").generate("ROMEO:", max_new_tokens=8)[:1]
        '\\n'
        """
        options = self.generation_options(**settings)
        how = (options, list(stop_strings), _schema(json_schema), regex, self._hooks(fwd_hooks))
        if stream:
            if not isinstance(prompts, str):
                raise ValueError("stream: expected one prompt")
            return _stream(lambda on_text: self._opened.generate([prompts], *how, on_text, None))
        with _Warnings() as warn:
            return _each(prompts, lambda given: [each[0][0] if options.num_return_sequences == 1 else [text for text, _ in each]
                                                 for each in self._opened.generate(given, *how, None, warn)])

    def chat(self, messages: str | Sequence[Message], *, tools: Sequence[Mapping[str, Any]] | None = None,
             json_schema: Any = None, regex: str | None = None, stop_strings: Sequence[str] = (), stream: bool = False,
             fwd_hooks: Hooks = (), chat_template_kwargs: Mapping[str, Any] | None = None, **settings: Any) -> Any:
        """The next message of a conversation: its text, or with stream=True an iterator over its parts.

        messages are those of transformers and OpenAI: [{"role": "user", "content": "Hi"}]; a text is one message of the
        user. Without a length in settings, the answer ends where the model ends it. A heed.Error for a model without a chat
        template, and for messages that it refuses.

        >>> type(heed.load("tests/fixtures/train/conversations").chat("Hi", max_new_tokens=3)).__name__
        'str'
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        conversation: dict[str, Any] = {"messages": list(messages)}
        if tools:
            conversation["tools"] = list(tools)
        if chat_template_kwargs:
            conversation["chat_template_kwargs"] = dict(chat_template_kwargs)
        _, ids = self._opened.chat_prompt(json.dumps(conversation))
        options = self.generation_options(**settings)
        if options.max_new_tokens is None and options.max_length is None:
            longest = self._opened.trained_positions or len(ids) + 1024
            options.max_new_tokens = max(1, longest - len(ids))
        how = ([ids], options, list(stop_strings), _schema(json_schema), regex, self._hooks(fwd_hooks))
        if stream:
            return _stream(lambda on_text: self._opened.generate_ids(*how, on_text))
        return self._opened.generate_ids(*how, None)[0][0][0]

    def loglikelihood(self, requests: Sequence[tuple[Any, Any]]) -> list[tuple[float, bool]]:
        """Of each (context, continuation), texts or lists of ids: the sum of log-probabilities of the continuation's tokens
        in nats, and whether it is the greedy one. Texts are split so that the tokens are those of both together.

        >>> (nats, greedy), = heed.load("shakespeare").loglikelihood([("ROMEO:", "\\n")])
        >>> round(nats, 2), greedy
        (-0.0, True)
        """
        split = [self._split(*request) for request in _two("requests", requests, "(context, continuation)")]
        return [(sum(p for p, _ in tokens), all(greedy for _, greedy in tokens)) for tokens in self._opened.likelihoods(split)]

    def _split(self, context: Any, continuation: Any) -> tuple[list[int], list[int]]:
        if not isinstance(context, str):
            return list(context), list(continuation)
        tokenizer = self.tokenizer
        spaces = len(context) - len(context.rstrip())
        if spaces:  # belongs to the continuation's first token
            context, continuation = context[:-spaces], context[-spaces:] + continuation
        whole, first = tokenizer.encode(context + continuation).ids, tokenizer.encode(context).ids
        if not first:
            start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
            if start is None:
                raise ValueError("context: expected a text, as the tokenizer has no token that begins one")
            return [start], whole
        return whole[:len(first)], whole[len(first):]


@checked
class Encoder(Model):
    """A model whose tokens attend to all others."""

    def classify(self, texts: Any, top_k: int | None = None) -> Any:
        """The labels of a text, of a pair (a tuple), or of each of a list: [(label, score), ...], highest first.

        A TypeError for what is no text, a heed.Error for a model without labels.

        >>> heed.load("reviews").classify("A moving story.", top_k=1)[0][0]
        'positive'
        """
        one = isinstance(texts, (str, tuple))
        if not one and not isinstance(texts, (Sequence, np.ndarray)):
            raise TypeError(f"texts: expected str, a pair or a list of them, got {type(texts).__name__}")
        given = _two("texts", [text if isinstance(text, tuple) else (text, None) for text in ([texts] if one else list(texts))], "(text, text)")
        for index, (first, second) in enumerate(given):
            if not isinstance(first, str) or not isinstance(second, (str, type(None))):
                raise TypeError(f"texts[{index}]: expected str or a pair of them, got {first!r}" + (f", {second!r}" if second is not None else ""))
        with _Warnings() as warn:
            found = self._opened.classify(given, top_k or 0, warn)
        return found[0] if one else found

    def classify_files(self, files: str | Sequence[str], labels: Sequence[str] | None = None, top_k: int | None = None) -> Any:
        """The labels of image or sound files: [(label, score), ...] of each; with `labels`, of those texts (CLIP, SigLIP).

        >>> len(heed.load("cifar10").classify_files("tests/fixtures/image/pictures/wide.png", top_k=3))
        3
        """
        return _each(files, lambda given: self._opened.classify_files(given, None if labels is None else list(labels), top_k or 0))

    def fill(self, texts: str | Sequence[str], top_k: int = 5) -> Any:
        """The likeliest tokens for each mask of a text, as transformers' pipeline: dicts of score, token, token_str, sequence.

        >>> heed.load("reviews-mlm").fill("This film was a complete [MASK] of time.")[0]["token_str"]
        'waste'
        """
        return _each(texts, lambda given: [masks[0] if len(masks) == 1 else masks for masks in self._opened.fill(given, top_k)])

    def tag(self, texts: str | Sequence[str]) -> Any:
        """The entities of a text: dicts of entity_group, score, word, start and end (characters). A heed.Error for other models.

        >>> heed.load("tests/fixtures/encoders/bert-tag").tag("a b")[0]["word"]
        'a'
        """
        return _each(texts, self._opened.tag)

    def answer(self, question: str, context: str, top_k: int = 1, impossible: bool = False) -> Any:
        """The part of the context that answers the question: a dict of answer, score, start and end (characters); a list
        for top_k > 1. impossible: whether there may be no answer. A heed.Error for other models.

        >>> heed.load("tests/fixtures/encoders/bert-qa").answer("where?", "in paris")["answer"]
        'paris'
        """
        found = self._opened.answer([(question, context)], top_k, impossible)[0]
        return found[0] if top_k == 1 else found


@checked
class CrossEncoder(Encoder):
    """A reranker: scores pairs of a query and a document, under sentence-transformers' names."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(_open(name, head=True, **options), name, {"head": True, **options})

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """The score of each pair, float32 [N]; of a model with several labels [N, labels].

        >>> heed.CrossEncoder("reviews").predict([("A film.", "A great one.")]).shape
        (1, 2)
        """
        with _Warnings() as warn:
            found = self._opened.classify([tuple(pair) for pair in _two("pairs", pairs, "(query, document)")], 0, warn)
        if found and len(found[0]) > 1:
            order = {label: index for index, label in enumerate(sorted(label for label, _ in found[0]))}
            return np.array([[s for _, s in sorted(each, key=lambda pair: order[pair[0]])] for each in found], np.float32)
        return np.array([each[0][1] for each in found], np.float32)

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None,
             return_documents: bool = False) -> list[dict[str, Any]]:
        """The documents by score, highest first: dicts of corpus_id, score, and text with return_documents.

        A ValueError for a model with several labels.

        >>> heed.CrossEncoder("tests/fixtures/train/comparison/reranker").rank("a", ["b", "a b"], top_k=1)[0]["corpus_id"]
        0
        """
        scores = self.predict([(query, document) for document in documents])
        if scores.ndim != 1:
            raise ValueError(f"rank: expected a model of one score, got {scores.shape[1]} labels (see predict())")
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(i), "score": float(scores[i]), **({"text": documents[i]} if return_documents else {})}
                for i in order]


@dataclass
class Translation:
    """One translation: alignments are the mean weights of the last layer's cross-attention, float32 [tokens, source tokens]."""
    text: str
    score: float
    tokens: list[str]
    source_tokens: list[str]
    attentions: dict[str, Array] = field(default_factory=dict, repr=False)


@checked
class EncoderDecoder(_Generates):
    """A model that reads a source and writes a target."""

    def translate(self, texts: str | Sequence[str], *, source: str | None = None, target: str | None = None, prefix: str = "",
                  return_alignments: bool = False, **settings: Any) -> Any:
        """The target of each text: its text, or with return_alignments Translation objects with the attention of each token.

        source and target are languages of a model that has several. settings as in Decoder.generate().

        >>> heed.load("en-fr").translate("The black cat drinks milk.")
        'Le chat noir boit du lait.'
        """
        if source is not None or target is not None:
            self._opened.set_languages(source, target)
        options = self.generation_options(**settings)
        with _Warnings() as warn:
            return _each(texts, lambda given: [Translation(**best) if return_alignments else best["text"] for best, *_ in
                                               self._opened.translate(given, options, prefix, return_alignments, warn)])

    def caption(self, files: str | Sequence[str], **settings: Any) -> Any:
        """What the model writes for image files, with the settings of Decoder.generate(). A heed.Error for a model of texts.

        >>> len(heed.load("tests/fixtures/vit-gpt2").caption(["tests/fixtures/image/pictures/wide.png"], max_new_tokens=3))
        1
        """
        return _each(files, lambda given: [each[0] for each in self._opened.caption(given, self.generation_options(**settings))])


def _schema(given: Any) -> str | None:
    return given if given is None or isinstance(given, str) else json.dumps(given)


def _stream(run: Callable[[Callable[[int, int, str], bool]], Any]) -> Iterator[str]:
    """Runs on a thread; yields parts of the text. Leaving the loop ends the run."""
    parts: queue.Queue[Any] = queue.Queue()
    ended = threading.Event()

    def on_text(_: int, __: int, text: str) -> bool:
        if text:
            parts.put(text)
        return not ended.is_set()

    def work() -> None:
        try:
            run(on_text)
            parts.put(None)
        except BaseException as error:  # handed to the reader
            parts.put(error)

    def read() -> Iterator[str]:
        worker = threading.Thread(target=work, name="heed-stream", daemon=True)
        worker.start()
        try:
            while (part := parts.get()) is not None:
                if isinstance(part, BaseException):
                    raise part
                yield part
        finally:
            ended.set()
            worker.join()
    return read()


def _open(name: str | Path, *, dtype: str = "float32", threads: int | None = None, int8: bool | None = None, adapters: Any = (),
          head: bool | None = None, steer: Any = (), steer_layers: tuple[int, int | None] = (0, None)) -> _heed.LoadedModel:
    if threads is not None:
        _heed.set_threads(threads)
    return _heed.load(str(name), dtype, int8, _weighted(adapters), head, _weighted(steer), (steer_layers[0], steer_layers[1]))


def _weighted(given: Any) -> list[tuple[str, float]]:
    """Names with factors: of a dict, or of one name or several, with 1."""
    if isinstance(given, Mapping):
        return [(str(name), float(weight)) for name, weight in given.items()]
    return [(str(name), 1.0) for name in ([given] if isinstance(given, (str, Path)) else given)]


@checked
def load(name: str | Path, *, dtype: str = "float32", threads: int | None = None, int8: bool | None = None,
         adapters: Any = (), head: bool | None = None, steer: Any = (), steer_layers: tuple[int, int | None] = (0, None)) -> Any:
    """Opens a model: a folder in Hugging Face layout, a GGUF file, or a name that is installed or in the Hugging Face cache.

    dtype is that of the weights in memory, float32 or bfloat16. int8: whether inputs of products with quantized weights are
    rounded; by default in encoders of texts where this processor gains by it. adapters:
    LoRA folders in PEFT's layout, or a dict of folder to weight. head: whether an encoder has the head of config.json (by
    default, unless the model is one of sentence-transformers). steer: files of vectors (heed.steer()), or a dict of file to
    strength; steer_layers: of their layers, from the first to before the second. threads: of the whole process.

    A heed.Error for a model that is not found, and for files that are malformed, names them.

    >>> heed.load("reviews").tasks[0]
    'classify texts'
    """
    options: dict[str, Any] = {"dtype": dtype, "int8": int8, "adapters": adapters, "head": head, "steer": steer}
    opened = _open(name, threads=threads, steer_layers=steer_layers, **options)
    kinds = {"decoder": Decoder, "encoder": Encoder, "encoder_decoder": EncoderDecoder, "dual_encoder": Encoder}
    return kinds[opened.model_kind](opened, str(name), options)
