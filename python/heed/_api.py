"""What `import heed` offers: names of the modules that stand on NumPy."""
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
