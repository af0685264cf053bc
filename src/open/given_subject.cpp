// Subjects as users give them, for a model of any kind.
#include <algorithm>

#include "core/strings.h"
#include "heed/chat/model_chat.h"
#include "heed/models/kind.h"
#include "heed/open/loaded_model.h"
#include "heed/open/subject.h"
#include "inspect/token_input.h"

namespace heed {
namespace {

constexpr const char* kMissingText = "missing text (give one with at least one word)";

void refuse(const char* option, bool given, const std::string& expected, const Model& model) {
  if (given) throw OptionError(option, "expected " + expected + ", got " + kind_of(model));
}

// For files.
void refuse_text_options(const SubjectRequest& request, const char* what) {
  if (request.pair || request.target || request.max_new_tokens)
    throw OptionError("pair, --target, --max-new-tokens",
                      std::string("expected none for ") + what + ", got one");
}

GenerationOptions generation_of(const LoadedModel& model, const SubjectRequest& request) {
  GenerationOptions options = model.generation();
  if (request.max_new_tokens) options.max_new_tokens = request.max_new_tokens;
  if (options.do_sample && request.seed) options.seed = request.seed();
  return options;
}

Subject of_encoder_decoder(const LoadedModel& model, const SubjectRequest& request) {
  refuse("pair", request.pair.has_value(), "an encoder", model.model());
  const Encoding encoding = model.tokenizer().encode(request.given);
  std::vector<std::int64_t> target;
  if (request.target) {
    target = model.tokenizer().encode_target(*request.target).ids;
  } else {
    TranslateOptions options;
    options.generation = generation_of(model, request);
    target = model.translate(std::span(&request.given, 1), options).front().candidates.front().hypothesis.ids;
  }
  if (encoding.ids.empty() || target.empty()) throw Error(kMissingText);
  Subject subject = subject_of_tokens(parts_of(model), encoding, target);
  subject.title = request.given + " → " + model.tokenizer().decode(target);
  return subject;
}

Subject of_caption(const LoadedModel& model, const SubjectRequest& request) {
  refuse("pair", request.pair.has_value(), "an encoder", model.model());
  Subject subject = subject_of_file(parts_of(model), request.given);
  std::vector<std::int64_t> caption;
  if (request.target) {
    caption = model.tokenizer().encode_target(*request.target).ids;
  } else {
    CaptionOptions options;
    options.generation = generation_of(model, request);
    caption = model.caption(std::span(&request.given, 1), options).front().front().hypothesis.ids;
  }
  if (caption.empty()) throw OptionError("target", "expected a text with at least one word, got none");
  add_target(subject, parts_of(model), caption);
  subject.title += " → " + std::string(trimmed(model.tokenizer().decode(caption)));
  subject.words = inspect::words_of(caption, model.tokenizer());
  return subject;
}

Subject of_decoder(const LoadedModel& model, const SubjectRequest& request) {
  refuse("pair", request.pair.has_value(), "an encoder", model.model());
  std::vector<std::int64_t> ids;
  std::string title = request.given;
  if (request.is_chat) {
    EncodedChat chat = model.chat_templates().prompt(request.given);
    ids = std::move(chat.encoding.ids);
    title = std::move(chat.text);
  } else {
    ids = model.tokenizer().encode(request.given).ids;
  }
  if (ids.empty()) throw Error(kMissingText);
  if (request.max_new_tokens) {
    CompleteOptions options;
    options.generation = generation_of(model, request);
    const Completion completion =
        complete(model.decoder(), model.tokenizer(), std::span(&ids, 1), options).front().front();
    title += " → " + completion.text;
    ids.insert(ids.end(), completion.hypothesis.ids.begin(), completion.hypothesis.ids.end());
  }
  Subject subject = subject_of_ids(parts_of(model), ids);
  subject.title = std::move(title);
  return subject;
}

// A tokenizer is needed for texts alone.
ModelParts parts_for_files(const LoadedModel& model) {
  return {model.model(), nullptr, &model.file_processor(), model.directory()};
}

// Of several texts, each has a kind of its own, as its tokens are others.
Subject of_two_towers(const LoadedModel& model, const SubjectRequest& request) {
  Subject subject = subject_of_file(parts_for_files(model), request.given);
  const EncoderModel& tower = model.dual_encoder().text();
  const std::size_t count = request.texts.size();
  subject.tokens["pooling"].queries = {"[probe]"};
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::int64_t> ids = inspect::tower_ids(tower, model.tokenizer(), request.texts[i]);
    if (ids.empty()) throw Error(std::string("--text: ") + kMissingText);
    if (const auto most = tower.max_positions(); most && std::ssize(ids) > *most)
      throw Error("--text: expected at most " + std::to_string(*most) + " tokens, got " +
                  std::to_string(ids.size()) + " in \"" + request.texts[i] + "\"");
    subject.texts.push_back(inspect::one_row(ids));
    const std::vector<std::string> tokens = inspect::token_names(&model.tokenizer(), ids);
    const std::string number = count > 1 ? " " + std::to_string(i + 1) : "";
    subject.tokens["text" + number] = {tokens, tokens};
    if (count > 1) subject.tokens["pooling for text" + number].queries = {"[probe]"};
    subject.title += (i == 0 ? ": " : " / ") + request.texts[i];
  }
  return subject;
}

}  // namespace

Subject subject_of(const LoadedModel& opened, const SubjectRequest& request) {
  const Model& model = opened.model();
  const ModelTraits traits = traits_of(model);
  if (!request.texts.empty() && !traits.is(ModelKind::dual_encoder))
    throw OptionError("text", "expected a model of texts and images, such as clip, got " + model.family());
  if (traits.reads_sound()) {
    refuse_text_options(request, "a recording");
    return subject_of_recording(opened, request);
  }
  if (request.start)
    throw OptionError("start", "expected a model that hears, such as whisper, got " + model.family());
  if (traits.is(ModelKind::encoder_decoder) && traits.reads_images()) return of_caption(opened, request);
  if (traits.reads_images()) {
    refuse_text_options(request, "an image");
    return traits.is(ModelKind::dual_encoder) ? of_two_towers(opened, request)
                                              : subject_of_file(parts_for_files(opened), request.given);
  }
  if (traits.is(ModelKind::encoder_decoder) && !request.is_chat) return of_encoder_decoder(opened, request);
  refuse("target", request.target.has_value(), "an encoder-decoder", model);
  if (traits.is(ModelKind::decoder)) return of_decoder(opened, request);
  refuse("messages", request.is_chat, "a decoder", model);
  refuse("max-new-tokens", request.max_new_tokens.has_value(), "a model that generates", model);
  const Tokenizer& tokenizer = opened.tokenizer();
  const Encoding encoding =
      request.pair ? tokenizer.encode_pair(request.given, *request.pair) : tokenizer.encode(request.given);
  if (encoding.ids.empty()) throw Error(kMissingText);
  Subject subject = subject_of_tokens(parts_of(opened), encoding);
  subject.title = request.pair ? request.given + " / " + *request.pair : request.given;
  return subject;
}

}  // namespace heed
