#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "heed/open/loaded_model.h"
#include "heed/text/tokenizer.h"

namespace heed::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

// A tokenizer, with the model that it belongs to.
struct OpenedTokenizer {
  LoadedModel model;
  const Tokenizer& get() const { return model.tokenizer(); }
};

Encoding encode(const OpenedTokenizer& self, const std::string& text, const std::optional<std::string>& pair,
                bool add_special_tokens) {
  return pair ? self.get().encode_pair(text, *pair, add_special_tokens)
              : self.get().encode(text, add_special_tokens);
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Encoding>(module, "Encoding",
                       "The tokens of a text or a pair; the names are those of `tokenizers`.")
      .def_ro("ids", &Encoding::ids)
      .def_ro("tokens", &Encoding::tokens)
      .def_ro("offsets", &Encoding::offsets, "Of each token, its first character and one past its last.")
      .def_ro("type_ids", &Encoding::type_ids)
      .def_prop_ro("special_tokens_mask",
                   [](const Encoding& self) {
                     return std::vector<int>(self.special_tokens_mask.begin(),
                                             self.special_tokens_mask.end());
                   })
      .def_prop_ro("attention_mask",
                   [](const Encoding& self) { return std::vector<int>(self.ids.size(), 1); })
      .def_prop_ro("sequence_ids",
                   [](const Encoding& self) {
                     std::vector<std::optional<int>> ids;
                     for (const std::int8_t id : self.sequence_ids)
                       ids.push_back(id < 0 ? std::nullopt : std::optional<int>(id));
                     return ids;
                   })
      .def("__len__", [](const Encoding& self) { return self.ids.size(); })
      .def("__repr__",
           [](const Encoding& self) { return "Encoding(" + std::to_string(self.ids.size()) + " tokens)"; });

  nb::class_<OpenedTokenizer>(module, "Tokenizer", "The tokenizer of a model.")
      .def(nb::init<const LoadedModel&>(), "model"_a)
      .def("encode", &encode, "text"_a, "pair"_a = nb::none(), "add_special_tokens"_a = true,
           "Tokens of a text, or of a pair: an Encoding.")
      .def(
          "encode_target",
          [](const OpenedTokenizer& self, const std::string& text, bool add_special_tokens) {
            return self.get().encode_target(text, add_special_tokens);
          },
          "text"_a, "add_special_tokens"_a = true, "The same for what an encoder-decoder writes.")
      .def(
          "decode",
          [](const OpenedTokenizer& self, const std::vector<std::int64_t>& ids, bool skip_special_tokens) {
            return self.get().decode_clean(ids, skip_special_tokens);
          },
          "ids"_a, "skip_special_tokens"_a = true, "The text of ids.")
      .def(
          "id_to_token", [](const OpenedTokenizer& self, std::int64_t id) { return self.get().token(id); },
          "id"_a)
      .def(
          "token_to_id",
          [](const OpenedTokenizer& self, const std::string& token) { return self.get().token_to_id(token); },
          "token"_a, "The id of a token, or None.")
      .def_prop_ro("vocab_size", [](const OpenedTokenizer& self) { return self.get().vocab_size(); })
      .def_prop_ro("bos_token_id", [](const OpenedTokenizer& self) { return self.get().bos_id(); })
      .def_prop_ro("eos_token_id", [](const OpenedTokenizer& self) { return self.get().eos_id(); })
      .def_prop_ro("unk_token_id", [](const OpenedTokenizer& self) { return self.get().unk_id(); })
      .def_prop_ro("pad_token_id", [](const OpenedTokenizer& self) { return self.get().pad_id(); })
      .def_prop_ro("mask_token_id", [](const OpenedTokenizer& self) { return self.get().mask_id(); })
      .def_prop_ro("model_max_length",
                   [](const OpenedTokenizer& self) { return self.get().model_max_length(); })
      .def("__len__", [](const OpenedTokenizer& self) { return self.get().vocab_size(); })
      .def("__repr__", [](const OpenedTokenizer& self) {
        return "Tokenizer(" + std::to_string(self.get().vocab_size()) + " tokens)";
      });
}

}  // namespace heed::python
