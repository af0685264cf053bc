// What heed attend feeds a model that writes captions: an image, and its caption, by words.
#include "cli/attend/attend.h"
#include "cli/input/models.h"
#include "core/strings.h"
#include "heed/image/processor.h"
#include "heed/models/kind.h"
#include "heed/ops/loss.h"
#include "heed/tasks/caption.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

std::vector<std::int64_t> caption_ids(const AttendText& text, const EncoderDecoderModel& model,
                                      const AttendSource& source) {
  if (text.target) return source.tokenizer->encode_target(*text.target).ids;
  CaptionOptions options;
  options.generation = generation_of(text, source);
  const std::vector<std::string> files{text.text};
  return caption_images(model, *source.tokenizer, load_image_processor(source.directory), files, options)
      .front()
      .front()
      .hypothesis.ids;
}

}  // namespace

AttendInput caption_input(const AttendText& text, const EncoderDecoderModel& model,
                          const AttendSource& source) {
  if (text.pair) throw UsageError("--pair: expected an encoder, got " + kind_of(model));
  if (source.tokenizer == nullptr)
    static_cast<void>(load_tokenizer(source.directory));  // says what is missing
  AttendInput input = image_input(text.text, source);
  const std::vector<std::int64_t> caption = caption_ids(text, model, source);
  if (caption.empty()) throw UsageError("--target: expected a text with at least one word, got none");
  const auto fed = model.decoder_inputs(inspect::one_row(caption), CrossEntropyOptions().ignore_index)
                       .to_vector<std::int64_t>();
  input.tensors["decoder_input_ids"] = inspect::one_row(fed);
  input.title += " → " + std::string(trimmed(source.tokenizer->decode(caption)));
  input.tokens = inspect::encoder_decoder_tokens({}, {}, inspect::token_names(source.tokenizer, fed));
  input.tokens["cross"].queries = inspect::token_names(source.tokenizer, caption);
  input.following = caption;
  input.words = inspect::words_of(caption, *source.tokenizer);
  return input;
}

}  // namespace heed::cli
