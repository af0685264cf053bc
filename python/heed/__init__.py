"""heed: transformers that run, train and show what every head attends to, on ordinary processors.

    import heed
    model = heed.load("all-MiniLM-L6-v2")
    vectors = model.encode(["A great film.", "A wonderful movie."])   # float32 [2, 384]

A model is a folder in Hugging Face layout, a GGUF file, or the name of one that is installed or in the Hugging Face
cache. Arrays are NumPy's; whatever has DLPack or the buffer protocol (PyTorch, JAX) is taken as it is.
"""
from heed._analysis import (Attention, ablate, attend, attribute, circuits, doctor, heads, lens, line_chart, patch, saliency,
                            steer)
from heed._heed import Canceled, Error, GenerationOptions, Tokenizer, set_threads, threads, version
from heed._models import CrossEncoder, Decoder, Encoder, EncoderDecoder, Model, Translation, load
from heed._names import ActivationCache
from heed._reports import NamedArray, Report, Steering, Table
from heed._speech import TranscriptionInfo, Whisper
from heed._training import convert, train

__version__ = version()

__all__ = ["ActivationCache", "Attention", "Canceled", "CrossEncoder", "Decoder", "Encoder", "EncoderDecoder", "Error",
           "GenerationOptions", "Model", "NamedArray", "Report", "Steering", "Table", "Tokenizer", "TranscriptionInfo", "Translation", "Whisper",
           "__version__", "ablate", "attend", "attribute", "circuits", "convert", "doctor", "heads", "lens", "line_chart", "load", "patch",
           "saliency", "set_threads", "steer", "threads", "train"]
