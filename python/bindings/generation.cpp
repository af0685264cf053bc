#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "heed/generate/options.h"
#include "heed/generate/search.h"

namespace heed::python {
namespace nb = nanobind;

void bind_generation(nb::module_& module) {
  nb::enum_<EarlyStopping>(module, "EarlyStopping")
      .value("no", EarlyStopping::no)
      .value("yes", EarlyStopping::yes)
      .value("never", EarlyStopping::never);
  using Options = GenerationOptions;
  nb::class_<Options>(module, "GenerationOptions", "Settings of generation, under the names of transformers.")
      .def(nb::init<>())
      .def(nb::init<const Options&>())
      .def_rw("max_new_tokens", &Options::max_new_tokens, nb::arg().none())
      .def_rw("max_length", &Options::max_length, nb::arg().none())
      .def_rw("min_new_tokens", &Options::min_new_tokens, nb::arg().none())
      .def_rw("min_length", &Options::min_length)
      .def_rw("max_source_length", &Options::max_source_length, nb::arg().none())
      .def_rw("num_beams", &Options::num_beams)
      .def_rw("num_return_sequences", &Options::num_return_sequences)
      .def_rw("length_penalty", &Options::length_penalty)
      .def_rw("early_stopping", &Options::early_stopping)
      .def_rw("repetition_penalty", &Options::repetition_penalty)
      .def_rw("encoder_repetition_penalty", &Options::encoder_repetition_penalty)
      .def_rw("no_repeat_ngram_size", &Options::no_repeat_ngram_size)
      .def_rw("encoder_no_repeat_ngram_size", &Options::encoder_no_repeat_ngram_size)
      .def_rw("bad_words_ids", &Options::bad_words_ids)
      .def_rw("suppress_tokens", &Options::suppress_tokens)
      .def_rw("begin_suppress_tokens", &Options::begin_suppress_tokens)
      .def_rw("renormalize_logits", &Options::renormalize_logits)
      .def_rw("eos_token_id", &Options::eos_token_id)
      .def_rw("pad_token_id", &Options::pad_token_id, nb::arg().none())
      .def_rw("bos_token_id", &Options::bos_token_id, nb::arg().none())
      .def_rw("decoder_start_token_id", &Options::decoder_start_token_id, nb::arg().none())
      .def_rw("forced_bos_token_id", &Options::forced_bos_token_id, nb::arg().none())
      .def_rw("do_sample", &Options::do_sample)
      .def_rw("temperature", &Options::temperature)
      .def_rw("top_k", &Options::top_k)
      .def_rw("top_p", &Options::top_p)
      .def_rw("min_p", &Options::min_p, nb::arg().none())
      .def_rw("typical_p", &Options::typical_p)
      .def_rw("epsilon_cutoff", &Options::epsilon_cutoff)
      .def_rw("eta_cutoff", &Options::eta_cutoff)
      .def_rw("seed", &Options::seed);

  nb::class_<Hypothesis>(module, "Hypothesis", "One generated sequence.")
      .def_ro("ids", &Hypothesis::ids)
      .def_ro("score", &Hypothesis::score)
      .def_ro("beam_score", &Hypothesis::beam_score)
      .def_ro("log_probability", &Hypothesis::log_probability)
      .def_prop_ro("finish_reason", [](const Hypothesis& self) {
        return std::string(finish_reason_name(self.finish_reason));
      });
}

}  // namespace heed::python
