// What a model is, in words and as traits.
#include "heed/models/kind.h"

#include "heed/error.h"

namespace heed {
namespace {

const char* name_of(EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return "encoder";
    case EncoderHead::masked_lm: return "masked language model";
    case EncoderHead::sequence: return "sequence classifier";
    case EncoderHead::token: return "token classifier";
    case EncoderHead::span: return "question answering model";
    case EncoderHead::ctc: return "speech recognizer";
  }
  HEED_ASSERT(false, "unknown head");
}

const char* name_of(const ModelTraits& traits) {
  switch (traits.kind) {
    case ModelKind::dual_encoder: return "dual encoder";
    case ModelKind::decoder: return traits.reads_images() ? "image model" : "decoder";
    case ModelKind::encoder_decoder: return traits.reads_images() ? "image model" : "encoder-decoder";
    case ModelKind::encoder: return traits.reads_images() ? "image model" : name_of(traits.head);
  }
  HEED_ASSERT(false, "unknown kind");
}

}  // namespace

ModelTraits traits_of(const Model& model) {
  ModelTraits traits;
  traits.input = model.input().kind;
  if (const auto* encoder = as<EncoderModel>(model)) {
    traits.kind = ModelKind::encoder;
    traits.head = encoder->head();
    if (traits.head == EncoderHead::sequence || traits.head == EncoderHead::token)
      traits.labels = std::ssize(encoder->labels());
  } else if (const auto* both = as<EncoderDecoderModel>(model)) {
    traits.kind = ModelKind::encoder_decoder;
    traits.self_attention = both->has_self_attention();
    traits.attention = traits.self_attention || both->has_cross_attention();
  } else if (as<DualEncoderModel>(model) != nullptr) {
    traits.kind = ModelKind::dual_encoder;
  } else {
    HEED_ASSERT(as<DecoderModel>(model) != nullptr, "a model of none of the kinds");
  }
  return traits;
}

std::string kind_of(const Model& model) {
  const std::string family = model.family();
  const bool vowel = std::string("aeio").find(family.front()) != std::string::npos;
  return (vowel ? "an " : "a ") + family + " " + name_of(traits_of(model));
}

}  // namespace heed
