// The kinds of models. visit() and as() tell the class of a model, and replace casts everywhere else.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

enum class ModelKind : std::uint8_t { decoder, encoder, encoder_decoder, dual_encoder };

/// The traits that decide which tasks, commands and analyses a model supports.
struct ModelTraits {
  ModelKind kind = ModelKind::decoder;
  EncoderHead head = EncoderHead::none;  ///< of an encoder
  InputKind input =
      InputKind::tokens;       ///< of the encoder of an encoder-decoder, and of the image tower of two
  bool self_attention = true;  ///< false: a recurrent model
  bool attention = true;       ///< of any kind
  std::int64_t labels = 0;     ///< of a head with labels

  bool reads_text() const { return input == InputKind::tokens; }
  bool reads_images() const { return input == InputKind::pixels || input == InputKind::patches; }
  bool reads_sound() const { return input == InputKind::spectrogram || input == InputKind::waveform; }
  bool is(ModelKind wanted) const { return kind == wanted; }
  bool is_encoder(EncoderHead wanted) const { return kind == ModelKind::encoder && head == wanted; }
};
ModelTraits traits_of(const Model& model);

/// Returns a description such as "a gpt2 decoder".
std::string kind_of(const Model& model);

/// The model as this kind (DecoderModel, EncoderModel, EncoderDecoderModel, DualEncoderModel); null if it is
/// another kind.
template <class Kind>
const Kind* as(const Model& model) {
  return dynamic_cast<const Kind*>(&model);
}
template <class Kind>
Kind* as(Model& model) {
  return dynamic_cast<Kind*>(&model);
}
template <class Kind>
const Kind* as(const Model* model) {
  return dynamic_cast<const Kind*>(model);
}
template <class Kind>
Kind* as(Model* model) {
  return dynamic_cast<Kind*>(model);
}

/// Calls the case that takes the model's kind, and returns its result. A case that takes a Model handles all
/// kinds without a case of their own.
///   visit(model, [](const DecoderModel& decoder) { … }, [](const Model&) { … });
template <class... Cases>
decltype(auto) visit(const Model& model, Cases&&... cases) {
  struct Chosen : std::remove_cvref_t<Cases>... {
    using std::remove_cvref_t<Cases>::operator()...;
  };
  const Chosen chosen{std::forward<Cases>(cases)...};
  if (const auto* decoder = as<DecoderModel>(model)) return chosen(*decoder);
  if (const auto* encoder = as<EncoderModel>(model)) return chosen(*encoder);
  if (const auto* both = as<EncoderDecoderModel>(model)) return chosen(*both);
  return chosen(dynamic_cast<const DualEncoderModel&>(model));
}

}  // namespace heed
