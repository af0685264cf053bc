// Transcripts of recordings.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "heed/autograd.h"
#include "heed/open/loaded_model.h"
#include "heed/sound/sound.h"
#include "heed/tasks/transcribe.h"

namespace heed::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

nb::tuple transcribe_file(const LoadedModel& model, const std::string& file, const TranscribeOptions& given,
                          const nb::object& on_segment, const nb::object& on_progress) {
  const Transcript transcript = unlocked([&](const std::atomic<bool>& stop) {
    TranscribeOptions options = given;
    options.stop = &stop;
    if (!on_segment.is_none())
      options.on_segment = [&](const TranscriptSegment& segment) {
        const nb::gil_scoped_acquire lock;
        on_segment(nb::cast(segment));
      };
    if (!on_progress.is_none())
      options.on_progress = [&](double done, double seconds) {
        const nb::gil_scoped_acquire lock;
        on_progress(done, seconds);
      };
    return model.transcribe(file, options);
  });
  return nb::make_tuple(nb::cast(transcript.segments), transcript.language, transcript.seconds);
}

}  // namespace

void bind_speech(nb::module_& module) {
  nb::class_<TranscribedWord>(module, "Word", "A word with its times in seconds.")
      .def_ro("word", &TranscribedWord::text)
      .def_ro("start", &TranscribedWord::start)
      .def_ro("end", &TranscribedWord::end)
      .def_ro("probability", &TranscribedWord::probability)
      .def("__repr__", [](const TranscribedWord& self) {
        return "Word(" + std::to_string(self.start) + ", " + std::to_string(self.end) + ", '" + self.text +
               "')";
      });
  nb::class_<TranscriptSegment>(module, "Segment",
                                "A piece of a transcript, under the names of faster-whisper.")
      .def_ro("start", &TranscriptSegment::start)
      .def_ro("end", &TranscriptSegment::end)
      .def_ro("text", &TranscriptSegment::text)
      .def_ro("tokens", &TranscriptSegment::tokens)
      .def_ro("temperature", &TranscriptSegment::temperature)
      .def_ro("avg_logprob", &TranscriptSegment::average_log_probability)
      .def_ro("compression_ratio", &TranscriptSegment::compression_ratio)
      .def_ro("no_speech_prob", &TranscriptSegment::no_speech_probability)
      .def_ro("words", &TranscriptSegment::words)
      .def("__repr__", [](const TranscriptSegment& self) {
        return "Segment(" + std::to_string(self.start) + ", " + std::to_string(self.end) + ", '" + self.text +
               "')";
      });
  using Options = TranscribeOptions;
  nb::class_<Options>(module, "TranscribeOptions")
      .def(nb::init<>())
      .def_rw("language", &Options::language, nb::arg().none())
      .def_rw("translate", &Options::translate, nb::arg().none())
      .def_rw("timestamps", &Options::timestamps, nb::arg().none())
      .def_rw("word_times", &Options::word_times)
      .def_rw("prompt", &Options::prompt)
      .def_rw("condition_on_previous_text", &Options::condition_on_previous_text)
      .def_rw("temperatures", &Options::temperatures)
      .def_rw("best_of", &Options::best_of)
      .def_rw("num_beams", &Options::num_beams)
      .def_rw("max_new_tokens", &Options::max_new_tokens, nb::arg().none())
      .def_rw("compression_ratio_threshold", &Options::compression_ratio_threshold, nb::arg().none())
      .def_rw("log_probability_threshold", &Options::log_probability_threshold, nb::arg().none())
      .def_rw("no_speech_threshold", &Options::no_speech_threshold, nb::arg().none())
      .def_rw("seed", &Options::seed);
  module.def("transcribe", &transcribe_file, "model"_a, "file"_a, "options"_a, "on_segment"_a.none(),
             "on_progress"_a.none());
  module.def(
      "load_sound",
      [](const std::string& file) {
        return array_of(unlocked([&](const std::atomic<bool>&) { return load_sound(file); }), true);
      },
      "file"_a);
}

}  // namespace heed::python
