// Each text is a request of the model's generation.
#include "serve/translate.h"

#include <fmt/format.h>

#include "generate/option_fields.h"
#include "generate/translation_sources.h"
#include "serve/inputs.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostBeams = 64, kMostNewTokens = 1 << 20;

struct TranslationJob : GenerationJob {
  std::vector<std::string> texts;
  std::optional<std::string> source;  ///< language; by default, the tokenizer's
  TranslateOptions options;
  std::vector<std::size_t> text_of;  ///< of each request; a blank text has none
  Json translations = Json::array();

  void prepare() override;
  bool have_token(std::size_t, const GeneratedToken&) override { return true; }
  void have_finished(std::size_t index, const Hypothesis& result, std::int64_t cached_tokens) override;
  void have_all() override {
    call->answer(Json{{"model", model->name}, {"translations", std::move(translations)}});
  }
};

void TranslationJob::prepare() {
  const Tokenizer* tokenizer = model->tokenizer.get();
  if (Tokenizer* chosen = model->translating.get()) {
    chosen->set_languages(source.value_or(tokenizer->languages()->source.token), std::nullopt);
    tokenizer = chosen;
  }
  GenerationRequest request{.options = options.generation};
  generate::allow_whole_length(*model->encoder_decoder(), request.options, request.hooks);
  auto sources = generate::translation_sources(*model->encoder_decoder(), *tokenizer, texts, options);
  for (std::size_t text = 0; text < texts.size(); ++text) {
    translations.push_back({{"text", ""}, {"score", 0.0}, {"finish_reason", "stop"}});
    for (std::size_t part = sources.first_part[text]; part < sources.first_part[text + 1]; ++part) {
      request.source = std::move(sources.ids[part]);
      requests.push_back(request);
      text_of.push_back(text);
    }
  }
}

void TranslationJob::have_finished(std::size_t index, const Hypothesis& result, std::int64_t) {
  call->facts.completion_tokens += std::ssize(result.ids);
  translations[text_of[index]] = {
      {"text", model->tokenizer->decode(result.ids)},
      {"score", options.generation.num_beams > 1 ? result.beam_score : result.score},
      {"finish_reason", result.finish_reason == FinishReason::stop ? "stop" : "length"}};
}

// The language of a field, which the model must have.
const Language* language_in(const ServedModel& model, const Fields& fields, const char* key) {
  const auto name = fields.string(key);
  if (!name) return nullptr;
  const Languages* languages = model.tokenizer->languages();
  if (languages == nullptr) fields.fail(key, "none, as the model has no choice of languages");
  const Language* found = languages->find(*name);
  if (found == nullptr)
    fields.fail(key, "one of the model's " + std::to_string(languages->list.size()) + " languages, such as " +
                         languages->list.front().name);
  return found;
}

void read_options(const ServedModel& model, const Fields& fields, TranslationJob& job) {
  if (const Language* source = language_in(model, fields, "source_lang")) job.source = source->token;
  GenerationOptions& options = job.options.generation = model.generation;
  const Language* target = language_in(model, fields, "target_lang");
  if (const Languages* languages = model.tokenizer->languages()) {
    std::optional<std::int64_t>& token =
        languages->starts_decoder ? options.decoder_start_token_id : options.forced_bos_token_id;
    if (target != nullptr) token = target->id;
    if (!token && languages->target) token = languages->target->id;
  }
  options.num_return_sequences = 1;
  options.num_beams = fields.integer("num_beams", 1, kMostBeams).value_or(options.num_beams);
  if (const auto most = fields.integer("max_new_tokens", 1, kMostNewTokens)) {
    options.max_length.reset();
    options.max_new_tokens = most;
  }
  job.options.prefix = fields.string("prefix").value_or("");
}

// Counts the tokens. What the model has no positions for is cut if the request says so, else refused.
void read_texts(const ServedModel& model, const Fields& fields, TranslationJob& job) {
  job.texts = fields.strings("text");
  const auto positions = model.model->max_positions();
  const bool truncate = fields.boolean("truncate").value_or(false);
  for (std::size_t i = 0; i < job.texts.size(); ++i) {
    const std::int64_t tokens = model.tokenizer->encode(job.options.prefix + job.texts[i]).size();
    if (positions && tokens > *positions && !truncate)
      throw ApiError(Problem::too_large,
                     fmt::format("request: text {}: expected at most {} tokens, got {} (shorten it, or let "
                                 "truncate be true)",
                                 i + 1, *positions, tokens),
                     "text");
    job.tokens += tokens;
  }
}

}  // namespace

bool translates(const ServedModel& model) {
  return makes_vectors(model) && model.encoder_decoder() != nullptr;
}

void translate_texts(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, translates, "translates texts");
  const Json* given = asked.fields.find("text");
  if (given == nullptr) asked.fields.fail("text", "a text, or an array of texts");
  if (given->is_array()) required_array(asked.fields, "text");
  auto job = std::make_shared<TranslationJob>();
  job->call = asked.call;
  job->model = &model;
  read_options(model, asked.fields, *job);
  read_texts(model, asked.fields, *job);
  job->call->facts.prompt_tokens = job->tokens;
  job->failure = Problem::invalid;
  asked.scheduler.add(std::move(job));
}

}  // namespace heed::serve
