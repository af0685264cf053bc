"""Speech to text, with the signature of faster-whisper."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed import _heed
from heed._checks import checked
from heed._heed import Segment
from heed._models import Model, _open


@dataclass(frozen=True)
class TranscriptionInfo:
    """What is known of a recording: its language ("" of a model without languages) and length in seconds."""
    language: str
    duration: float


@checked
class Whisper(Model):
    """A model of speech: Whisper, wav2vec 2.0, Moonshine. options are those of heed.load()."""

    def __init__(self, name: str | Path, **options: Any) -> None:
        super().__init__(_open(name, **options), str(name), options)

    def transcribe(self, audio: str | Path, *, language: str | None = None, task: str = "transcribe", beam_size: int = 1,
                   best_of: int = 5, temperature: float | Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
                   initial_prompt: str | None = None, condition_on_previous_text: bool = True, word_timestamps: bool = False,
                   without_timestamps: bool = False, compression_ratio_threshold: float | None = 2.4,
                   log_prob_threshold: float | None = -1.0, no_speech_threshold: float | None = 0.6,
                   max_new_tokens: int | None = None, on_segment: Callable[[Segment], Any] | None = None) -> tuple[Iterator[Segment], TranscriptionInfo]:
        """The segments of a recording (WAV, FLAC, Ogg, MP3, AIFF, ... of any length), and what is known of it.

        language is found in the first window unless it is given. on_segment is called with each segment as it is final. A
        heed.Error for a file that is no recording, and for a language that the model does not have.

        >>> speech = heed.Whisper("tests/fixtures/moonshine-speech")
        >>> segments, info = speech.transcribe("tests/fixtures/sound/speech.wav", max_new_tokens=4)
        >>> info.duration
        0.35
        """
        if task not in ("transcribe", "translate"):
            raise ValueError(f"task: expected transcribe or translate, got {task}")
        options = _heed.TranscribeOptions()
        options.language = language
        if task == "translate":
            options.translate = True
        options.num_beams = beam_size
        options.best_of = best_of
        options.temperatures = [temperature] if isinstance(temperature, (int, float)) else list(temperature)
        options.prompt = initial_prompt or ""
        options.condition_on_previous_text = condition_on_previous_text
        options.word_times = word_timestamps
        if without_timestamps:
            options.timestamps = False
        options.compression_ratio_threshold = compression_ratio_threshold
        options.log_probability_threshold = log_prob_threshold
        options.no_speech_threshold = no_speech_threshold
        options.max_new_tokens = max_new_tokens
        segments, spoken, seconds = _heed.transcribe(self._opened, str(audio), options, on_segment, None)
        return iter(segments), TranscriptionInfo(spoken, seconds)
