// heed's own route: texts through an encoder-decoder, as `heed translate` does it. Each text is a request of
// the model's generation.

#include <fmt/format.h>

#include "generate/option_fields.h"
#include "generate/translation_sources.h"
#include "serve/routes/routes.h"
#include "serve/routes/text_inputs.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostBeams = 64, kMostNewTokens = 1 << 20;
constexpr const char* kTextForm = "a text, or an array of texts";

struct TranslationFields {
  void walk(Fields& fields) {
    fields("text", texts, "A text, or an array of texts", {.required = kTextForm, .items = kMostInputs});
    fields("source_lang", source_lang, "Of a model of several languages: a name or token");
    fields("target_lang", target_lang, "The same");
    fields("prefix", prefix, "Put before each text: `translate English to German: ` (T5)");
    option_field(fields, "num_beams", num_beams, {}, FieldRule{.least = 1, .most = kMostBeams});
    option_field(fields, "max_new_tokens", max_new_tokens, ", of each text (default: as the model's files)",
                 FieldRule{.least = 1, .most = kMostNewTokens});
    fields("truncate", truncate, kTruncateNote);
  }
  std::vector<std::string> texts;
  std::optional<std::string> source_lang, target_lang;
  std::string prefix;
  std::optional<std::int64_t> num_beams, max_new_tokens;
  bool truncate = false;
};

struct TranslationJob : GenerationJob {
  std::vector<std::string> texts;
  std::optional<std::string> source;  ///< language; by default, the tokenizer's
  TranslateOptions options;
  std::vector<std::size_t> text_of;  ///< of each request; a blank text has none
  Json translations = Json::array();

  void prepare() override;
  bool on_token(std::size_t, const GeneratedToken&) override { return true; }
  void on_finished(std::size_t index, const Hypothesis& result, std::int64_t cached_tokens) override;
  void on_all() override {
    call->answer(Json{{"model", model->name}, {"translations", std::move(translations)}});
  }
};

void TranslationJob::prepare() {
  const Tokenizer* tokenizer = &model->tokenizer();
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

void TranslationJob::on_finished(std::size_t index, const Hypothesis& result, std::int64_t) {
  call->record.completion_tokens += std::ssize(result.ids);
  translations[text_of[index]] = {
      {"text", model->tokenizer().decode(result.ids)},
      {"score", options.generation.num_beams > 1 ? result.beam_score : result.score},
      {"finish_reason", result.finish_reason == FinishReason::stop ? "stop" : "length"}};
}

// The language of a name, which the model must have.
const Language* language_in(const RequestContext& context, const char* key,
                            const std::optional<std::string>& name) {
  if (!name) return nullptr;
  const Languages* languages = context.model.tokenizer().languages();
  if (languages == nullptr) context.fields.fail(key, "none, as the model has no choice of languages");
  const Language* found = languages->find(*name);
  if (found == nullptr)
    context.fields.fail(key, "one of the model's " + std::to_string(languages->list.size()) +
                                 " languages, such as " + languages->list.front().name);
  return found;
}

void read_options(const RequestContext& context, TranslationFields& given, TranslationJob& job) {
  const ServedModel& model = context.model;
  if (const Language* source = language_in(context, "source_lang", given.source_lang))
    job.source = source->token;
  GenerationOptions& options = job.options.generation = model.opened.generation();
  const Language* target = language_in(context, "target_lang", given.target_lang);
  if (const Languages* languages = model.tokenizer().languages()) {
    std::optional<std::int64_t>& token =
        languages->starts_decoder ? options.decoder_start_token_id : options.forced_bos_token_id;
    if (target != nullptr) token = target->id;
    if (!token && languages->target) token = languages->target->id;
  }
  options.num_return_sequences = 1;
  options.num_beams = given.num_beams.value_or(options.num_beams);
  if (given.max_new_tokens) {
    options.max_length.reset();
    options.max_new_tokens = given.max_new_tokens;
  }
  if (const auto& most = context.services.limits.new_tokens) {
    const auto own = options.max_new_tokens ? options.max_new_tokens : options.max_length;
    if (!own || *own > *most) {
      options.max_length.reset();
      options.max_new_tokens = *most;
    }
  }
  job.options.prefix = std::move(given.prefix);
}

// Counts the tokens. What the model has no positions for is cut if the request says so, else refused.
void read_texts(const ServedModel& model, TranslationFields& given, TranslationJob& job) {
  job.texts = std::move(given.texts);
  const auto positions = model.model().max_positions();
  for (std::size_t i = 0; i < job.texts.size(); ++i) {
    require_bytes(model, "text", job.texts[i], positions.value_or(0), given.truncate || !positions,
                  ErrorCode::too_large);
    const std::int64_t tokens = model.tokenizer().encode(job.options.prefix + job.texts[i]).size();
    if (positions && tokens > *positions && !given.truncate)
      throw ApiError(ErrorCode::too_large,
                     fmt::format("request: text {}: expected at most {} tokens, got {} (shorten it, or let "
                                 "truncate be true)",
                                 i + 1, *positions, tokens),
                     "text");
    job.tokens += tokens;
  }
}

void translate_texts(const RequestContext& context, TranslationFields given) {
  const Json& text = *context.fields.reads()->find("text");
  if (text.is_array()) checked_array(text, "text");
  auto job = std::make_shared<TranslationJob>();
  job->call = context.call;
  job->model = &context.model;
  read_options(context, given, *job);
  read_texts(context.model, given, *job);
  job->call->record.prompt_tokens = job->tokens;
  job->failure = ErrorCode::invalid;
  context.scheduler.add(std::move(job));
}

}  // namespace

Routes translation_routes(Serving* serving) {
  return {to_model(serving,
                   {"POST",
                    {"/translate"},
                    ErrorForm::openai,
                    "Translation",
                    "Texts through an encoder-decoder: translations, summaries",
                    {{R"({"model": "string", "translations": [{"text": "string", "score": "number",
                          "finish_reason": "=stop|length"}]})"}}},
                   {"translation", "translates texts"}, translate_texts)};
}

}  // namespace heed::serve
