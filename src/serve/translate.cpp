// Text after text.
#include "serve/translate.h"

#include "heed/canceled.h"
#include "heed/generate/translate.h"
#include "serve/inputs.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostBeams = 64, kMostNewTokens = 1 << 20;

struct TranslationJob : PassJob {
  std::vector<std::string> texts;
  std::optional<std::string> source;  ///< language; by default, the tokenizer's
  TranslateOptions options;
  Json translations = Json::array();

  bool translate_next();
};

bool TranslationJob::translate_next() {
  const Tokenizer* tokenizer = model->tokenizer.get();
  if (Tokenizer* chosen = model->translating.get()) {
    chosen->set_languages(source.value_or(tokenizer->languages()->source.token), std::nullopt);
    tokenizer = chosen;
  }
  const std::string& text = texts[translations.size()];
  const Translation translation =
      translate(*model->encoder_decoder(), *tokenizer, std::span(&text, 1), options).front();
  const Hypothesis& best = translation.candidates.front().hypothesis;
  translations.push_back({{"text", translation.text()},
                          {"score", options.generation.num_beams > 1 ? best.beam_score : best.score}});
  if (translations.size() < texts.size()) return true;
  call->answer(Json{{"model", model->name}, {"translations", std::move(translations)}});
  return false;
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
  job.options.long_lines = fields.boolean("truncate").value_or(true) ? LongLines::cut : LongLines::error;
  job.options.task.stop = &job.call->stop();
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
  job->texts = asked.fields.strings("text");
  read_options(model, asked.fields, *job);
  for (const std::string& text : job->texts) job->tokens += model.tokenizer->encode(text).size();
  job->call->facts.prompt_tokens = job->tokens;
  job->pass = [job = job.get()] {
    try {
      return job->translate_next();
    } catch (const Canceled&) {
      return true;  // the next turn tells why
    } catch (const Error& error) {
      job->call->fail(ApiError(Problem::invalid, error.what()));
      return false;
    }
  };
  asked.scheduler.add(std::move(job));
}

}  // namespace heed::serve
