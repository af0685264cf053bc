// Checks of what stands between a user's input and the model: the processor of images or sounds, and the
// pooling of an embedding model.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/examination.h"
#include "heed/error.h"
#include "heed/image/processor.h"
#include "heed/sound/processor.h"
#include "heed/tasks/embed.h"

namespace heed::doctor {
namespace {

// One row of what the processor makes of a gray picture, or of a second of silence.
Tensor processed(const ModelFiles& files, const InputSpec& input) {
  if (input.is_image())
    return load_image_processor(files)(Tensor::full({48, 64, 3}, 128, DType::u8)).pixel_values;
  const SoundProcessor processor = load_sound_processor(files);
  return processor(Tensor::zeros({processor.rate()})).features;
}

const Model& reader_of_features(const Model& model) {
  const auto* dual = as<DualEncoderModel>(model);
  return dual == nullptr ? model : static_cast<const Model&>(dual->image());
}

constexpr std::size_t kCardLimit = 1 << 20;  // bytes of a model's card

// What a model's card says of its pooling, in the words that sentence-transformers writes or in the code that
// such cards show; nullopt: nothing, or several things.
std::optional<Pooling> pooling_of_card(const std::string& card) {
  struct Words {
    const char* text;
    Pooling pooling;
  };
  constexpr Words kWords[] = {{"'pooling_mode_cls_token': True", Pooling::cls},
                              {"'pooling_mode_mean_tokens': True", Pooling::mean},
                              {"'pooling_mode_lasttoken': True", Pooling::last},
                              {"mean_pooling(", Pooling::mean},
                              {"cls_pooling(", Pooling::cls},
                              {"last_token_pool(", Pooling::last}};
  std::optional<Pooling> found;
  for (const Words& words : kWords) {
    if (card.find(words.text) == std::string::npos) continue;
    if (found && *found != words.pooling) return std::nullopt;
    found = words.pooling;
  }
  return found;
}

const char* name_of_pooling(Pooling pooling) {
  switch (pooling) {
    case Pooling::cls: return "the first token";
    case Pooling::last: return "the last token";
    case Pooling::mean: return "the mean";
    default: return "another pooling";
  }
}

}  // namespace

Finding check_processor(Examination& e) {
  const InputSpec input = reader_of_features(e.model()).input();
  if (input.kind == InputKind::tokens) return skip("the model reads tokens");
  if (!e.checked.files->has("preprocessor_config.json") && !e.checked.files->has("processor_config.json"))
    return skip("there is no preprocessor_config.json");
  const Tensor made = processed(*e.checked.files, input);
  const Shape row(std::vector<std::int64_t>(made.shape().begin() + 1, made.shape().end()));
  bool fits = row.rank() == input.row.rank();
  for (std::int64_t i = 0; fits && i < row.rank(); ++i) fits = input.row[i] == -1 || input.row[i] == row[i];
  Finding found{.measurement = fmt::format("the processor makes {} of an input, the model reads {}",
                                           row.str(), input.row.str())};
  if (fits) return found;
  found.status = CheckStatus::failed;
  found.advice =
      "correct preprocessor_config.json (sizes; hop_length, chunk_length and feature_size of a sound), or "
      "take that "
      "of the model that this one was made from";
  return found;
}

Finding check_pooling(Examination& e) {
  const ModelFiles& files = *e.checked.files;
  if (!files.has("modules.json") || !files.has("README.md"))
    return skip("no modules of an embedding model with a card");
  const EmbeddingRecipe recipe = load_embedding_recipe(files, e.model());
  const std::optional<Pooling> said = pooling_of_card(files.text("README.md", kCardLimit));
  if (recipe.poolings.size() != 1 || !said) return skip("the card does not say how vectors are pooled");
  const Pooling pooling = recipe.poolings.front();
  Finding found{.measurement = fmt::format("vectors are pooled by {}", name_of_pooling(pooling))};
  if (pooling == *said) return found;
  found.status = CheckStatus::warning;
  found.measurement += fmt::format(", but the card (README.md) says {}", name_of_pooling(*said));
  found.advice = "correct the pooling of 1_Pooling/config.json, or the card";
  return found;
}

}  // namespace heed::doctor
