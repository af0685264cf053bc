// Recordings and their texts: reading, batches, and the loss of CTC or of a decoder.
#include "train/tasks/transcription.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/generate/search.h"
#include "heed/models/kind.h"
#include "heed/models/registry.h"
#include "heed/score/error_rates.h"
#include "heed/tasks/transcribe.h"
#include "io/processor_config.h"
#include "train/tasks/model_source.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

// The samples of a recording at this rate: as its header says, or, where it does not, decoded.
std::int64_t count_samples(const std::string& file, std::int64_t rate) {
  SoundReader reader{std::filesystem::path(file), {.rate = rate}};
  const SoundInfo& info = reader.info();
  if (info.frames) return (*info.frames * rate + info.rate - 1) / info.rate;
  std::vector<float> block(std::size_t{1} << 16);
  std::int64_t samples = 0;
  for (std::size_t got = block.size(); got == block.size(); samples += static_cast<std::int64_t>(got))
    got = reader.read(block);
  return samples;
}

// The frames that an alignment needs: a blank stands between equal labels.
std::int64_t frames_needed(const std::vector<std::int64_t>& labels) {
  std::int64_t needed = std::ssize(labels);
  for (std::size_t i = 1; i < labels.size(); ++i) needed += labels[i] == labels[i - 1] ? 1 : 0;
  return needed;
}

}  // namespace

SpeechBatch SpeechBatchMaker::operator()(const SpokenTexts& texts, const BatchPlan::Rows& batch) const {
  if (batch.rows.empty()) return {};
  std::vector<Tensor> sounds;
  for (const std::int64_t row : batch.rows)
    sounds.push_back(load_sound(texts[row].file, {.rate = processor.rate()}));
  SpeechBatch made{.inputs = {}, .labels = {}, .rows = batch.rows};
  if (processor.bins() > 0) {
    made.inputs.values = processor(sounds).features;
  } else {
    std::int64_t longest = 0;  // of all shares
    for (const std::int64_t row : batch.all) {
      const auto own = std::find(batch.rows.begin(), batch.rows.end(), row);
      longest = std::max(longest, own == batch.rows.end()
                                      ? texts[row].samples
                                      : sounds[static_cast<std::size_t>(own - batch.rows.begin())].numel());
    }
    pad(sounds, longest, made.inputs);
  }
  const auto count = std::ssize(batch.rows);
  std::int64_t width = 0;
  for (const std::int64_t row : batch.rows) width = std::max(width, std::ssize(texts[row].labels));
  made.labels = Tensor::full({count, width}, static_cast<double>(kIgnoredLabel), DType::i64);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<std::int64_t> labels = texts[batch.rows[static_cast<std::size_t>(i)]].labels;
    std::copy(labels.begin(), labels.end(), made.labels.data<std::int64_t>() + i * width);
  }
  return made;
}

// Each sound is normalized by itself, as transformers' scripts of fine-tuning do, then padded with zeros.
void SpeechBatchMaker::pad(const std::vector<Tensor>& sounds, std::int64_t longest,
                           ModelInput& inputs) const {
  const Shape shape{std::ssize(sounds), longest};
  inputs.values = Tensor::zeros(shape);
  const Tensor mask = Tensor::zeros(shape, DType::i64);
  bool masked = false;
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    const SoundInputs one = processor(sounds[i]);
    const std::int64_t count = one.features.numel(), at = static_cast<std::int64_t>(i) * longest;
    std::copy_n(one.features.data<float>(), count, inputs.values.data<float>() + at);
    std::fill_n(mask.data<std::int64_t>() + at, count, 1);
    masked = one.attention_mask.defined();
  }
  if (masked) inputs.mask = mask;
}

TranscriptionTask::TranscriptionTask(const Recipe& recipe, const TrainOptions& options,
                                     const std::filesystem::path& checkpoint)
    : recipe_(recipe), options_(options) {
  const std::filesystem::path from = checkpoint.empty() ? options.init : checkpoint;
  if (from.empty())
    throw Error(
        "recipe: expected a model to start from for the task transcription, got none (give --init MODEL)");
  if (checkpoint.empty())
    message("starting from the model of " + from.string() + "; [model] of the recipe is not used");
  load(from);
  std::int64_t skipped = 0;
  const auto parts = read_parts(
      recipe.data, "recordings", [this](const std::string& text) { message(text); },
      [&](const std::filesystem::path& path) {
        LabeledTexts found = read_recordings(path, recipe.data, options.output);
        skipped += found.skipped;
        return found;
      });
  if (skipped > 0)
    message(fmt::format("{} recording{} without text skipped", skipped, skipped == 1 ? "" : "s"));
  DataCounts counts("recordings", "seconds", longest() / static_cast<double>(processor_->rate()));
  train_ = std::make_shared<const SpokenTexts>(prepare(parts.train, "training", counts));
  dev_ = prepare(parts.dev, "development", counts);
  test_ = prepare(parts.test, "test", counts);
  data_ = counts.finish();
  message(fmt::format("{} recordings to train on, {} for development, {} for the test", train_->size(),
                      dev_.size(), test_.size()));
  if (train_->empty()) return;  // an evaluation
  begin(BatchPlan(lengths_of(*train_), plan_options(recipe, options)),
        [texts = train_, make = SpeechBatchMaker{*processor_}](const BatchPlan::Rows& batch) {
          return make(*texts, batch);
        });
}

void TranscriptionTask::load(const std::filesystem::path& from) {
  const std::filesystem::path& other = recipe_.tokenizer.from;
  tokenizer_ = load_tokenizer(other.empty() ? from : other);
  preprocessor_ =
      load_processor_config(ModelFiles(from), "feature_extractor", "how sound becomes a model's input");
  processor_ = load_sound_processor(from);
  model_ = load_model(from);
  decoder_ = as<EncoderDecoderModel>(model_.get());
  encoder_ = as<EncoderModel>(model_.get());
  const InputKind kind = model_->input().kind;
  const bool reads_samples = kind == InputKind::waveform;
  if (!(reads_samples || (decoder_ != nullptr && kind == InputKind::spectrogram)))
    throw Error(
        fmt::format("{}: expected a model of speech for the task transcription, such as whisper or "
                    "wav2vec2, got {}",
                    from.string(), model_->family()));
  if (reads_samples != (processor_->bins() == 0))
    throw Error(
        fmt::format("{}: expected the preprocessing of {} models, got {} (preprocessor_config.json is "
                    "another model's)",
                    from.string(), model_->family(), processor_->type()));
  if (decoder_ != nullptr && !other.empty())
    throw Error("recipe: tokenizer.from: only a model with a CTC head gets another tokenizer");
  if (decoder_ == nullptr) load_head(from);
  check_fits(*tokenizer_, *model_);
  report_other_ids(*tokenizer_, from, options_);
  if (decoder_ != nullptr) choose_prompt(from);
  parameters_ = trained_parameters(*model_, recipe_);
  message(describe_model(*model_, *tokenizer_));
}

// A CTC head: the model's, or a new one for another tokenizer, or for a model without head.
void TranscriptionTask::load_head(const std::filesystem::path& from) {
  const Config config = load_model_config(from);
  if (recipe_.train.label_smoothing > 0)
    throw Error("recipe: train.label_smoothing: expected 0 for a model with a CTC head, got more");
  if (config.number("mask_time_prob", 0.05) > 0 || config.number("mask_feature_prob", 0) > 0 ||
      config.number("layerdrop", 0.1) > 0)
    message("training leaves out SpecAugment and LayerDrop (mask_time_prob, mask_feature_prob, layerdrop)");
  if (encoder_->head() == EncoderHead::ctc && recipe_.tokenizer.from.empty()) return;
  if (!tokenizer_->pad_id())
    throw Error(recipe_.tokenizer.from.string() +
                ": expected a tokenizer with a padding token, the blank, got none");
  Generator generator = initial_weights(recipe_);
  model_ =
      load_encoder(from,
                   config.with(JsonWriter()
                                   .begin_object()
                                   .field("architectures", std::vector{class_with_head(config, "ForCTC")})
                                   .field("vocab_size", tokenizer_->vocab_size())
                                   .field("pad_token_id", *tokenizer_->pad_id())
                                   .end_object()
                                   .text()),
                   generator);
  encoder_ = as<EncoderModel>(model_.get());
}

// What the decoder reads before a text: the start token, and of Whisper language, task and <|notimestamps|>.
void TranscriptionTask::choose_prompt(const std::filesystem::path& from) {
  const bool whisper = model_->input().kind == InputKind::spectrogram;
  const std::string& language = recipe_.task.language;
  if (!whisper) {
    if (!language.empty() || recipe_.task.translate)
      throw Error(fmt::format("recipe: task.language, task.translate: expected none for a {} model, got some",
                              model_->family()));
    generation_ = load_generation_options(from.string());
    prompt_ = {generation_.decoder_start_token_id.value_or(decoder_->decoder_start_id())};
    if (generation_.eos_token_id.empty()) generation_.eos_token_id = {decoder_->eos_id()};
    return;
  }
  const SpeechSettings settings = load_speech_settings(from.string(), *decoder_);
  generation_ = settings.generation;
  prompt_ = {settings.start};
  if (!settings.is_multilingual() && (!language.empty() || recipe_.task.translate))
    throw Error("recipe: task.language, task.translate: expected none for a model of English only, got some");
  if (settings.is_multilingual()) {
    if (language.empty() && !settings.language)
      throw Error("recipe: task.language: not set (give the language of the speech, such as en)");
    if (recipe_.task.translate && !settings.translate)
      throw Error("recipe: task.translate: expected false for a model without that task, got true");
    const std::string code = language.empty() ? *settings.language : speech_language(settings, language);
    for (const auto& [known, id] : settings.languages) {
      if (known == code) prompt_.push_back(id);
    }
    prompt_.push_back(recipe_.task.translate ? *settings.translate : *settings.transcribe);
    spoken_ = fmt::format(R"({{"language": "{}", "task": "{}"}})", code,
                          recipe_.task.translate ? "translate" : "transcribe");
  }
  prompt_.push_back(settings.no_timestamps);
}

std::vector<std::int64_t> TranscriptionTask::labels_of(const std::string& text) const {
  std::vector<std::int64_t> ids = tokenizer_->encode(text, false).ids;
  if (decoder_ == nullptr) return ids;
  ids.insert(ids.begin(), prompt_.begin() + 1, prompt_.end());
  ids.push_back(generation_.eos_token_id.front());
  return ids;
}

std::int64_t TranscriptionTask::frames_of(std::int64_t samples) const {
  const InputSpec input = model_->input();
  if (input.kind == InputKind::spectrogram) return input.row[1] / 2;  // by the stride of a convolution
  return samples < input.least ? 0 : (samples - input.least) / input.hop + 1;
}

double TranscriptionTask::longest() const {
  const double most = recipe_.data.max_seconds * static_cast<double>(processor_->rate());
  const auto window = processor_->window();
  return window ? std::min(most, static_cast<double>(*window)) : most;
}

SpokenTexts TranscriptionTask::prepare(const ChosenRecords<LabeledTexts>& recordings, const char* name,
                                       DataCounts& counts) const {
  counts.begin(name);
  SpokenTexts texts(options_.output);
  std::int64_t long_ones = 0, short_ones = 0, wordy = 0, unknown = 0;
  const std::int64_t rate = processor_->rate();
  const double most = longest();
  for (std::int64_t i = 0; i < recordings.size(); ++i) {
    const LabeledText one = recordings[i];
    SpokenText text{one.text, one.labels.front(), labels_of(one.labels.front()), 0};
    try {
      text.samples = count_samples(text.file, rate);
    } catch (const Error& error) {
      throw Error(recordings.list->where(one) + ": " + error.what());
    }
    counts.add(content_key(one));
    counts.add_length(static_cast<double>(text.samples) / static_cast<double>(rate));
    counts.set().replaced += data::has_lost_characters(text.text);
    const std::int64_t frames = frames_of(text.samples);
    const std::int64_t positions = decoder_ != nullptr ? decoder_->max_positions().value_or(INT64_MAX) : 0;
    if (static_cast<double>(text.samples) > most) {
      ++long_ones;
    } else if (frames == 0) {
      ++short_ones;
    } else if (decoder_ != nullptr ? std::ssize(text.labels) > positions
                                   : frames_needed(text.labels) > frames || text.labels.empty()) {
      ++wordy;
    } else {
      // The unknown token of Whisper is its end token, which every text has.
      if (tokenizer_->unk_id() && tokenizer_->unk_id() != tokenizer_->eos_id())
        unknown += std::count(text.labels.begin(), text.labels.end(), *tokenizer_->unk_id());
      texts.add(text);
    }
  }
  texts.finish();
  counts.set().left_out = long_ones + short_ones + wordy;
  const auto report = [&](std::int64_t count, const std::string& why) {
    if (count > 0)
      message(fmt::format("{} set: {} recording{} skipped: {}", name, count, count == 1 ? "" : "s", why));
  };
  report(long_ones, fmt::format("longer than {:g} s (data.max_seconds, or the model's window)",
                                most / static_cast<double>(rate)));
  report(short_ones, "too short for a frame");
  report(wordy, decoder_ != nullptr ? "more tokens of text than the model has positions"
                                    : "more tokens of text than frames");
  if (unknown > 0)
    message(fmt::format("{} set: {} token{} of texts unknown to the tokenizer (upper and lower case differ)",
                        name, unknown, unknown == 1 ? "" : "s"));
  if (recordings.size() > 0 && texts.empty())
    throw Error(
        fmt::format("recipe: data: expected recordings that the model takes in the {} set, got none", name));
  return texts;
}

std::vector<ExampleLength> TranscriptionTask::lengths_of(const SpokenTexts& texts) const {
  std::vector<ExampleLength> lengths;
  for (std::int64_t i = 0; i < texts.size(); ++i) {
    const SpokenText text = texts[i];
    const std::int64_t frames = frames_of(text.samples), labels = std::ssize(text.labels);
    lengths.push_back({std::max(frames, labels), frames + labels});
  }
  return lengths;
}

SummedLoss TranscriptionTask::loss_of(const SpeechBatch& batch, double label_smoothing,
                                      Context& context) const {
  if (batch.rows.empty()) return {};
  const CrossEntropyOptions options{
      .label_smoothing = label_smoothing, .ignore_index = kIgnoredLabel, .reduction = Reduction::sum};
  if (decoder_ == nullptr)
    return {encoder_->loss(batch.inputs, batch.labels, options, context), std::ssize(batch.rows)};
  const std::int64_t* labels = batch.labels.data<std::int64_t>();
  return {decoder_->loss(batch.inputs, batch.labels, options, context),
          batch.labels.numel() - std::count(labels, labels + batch.labels.numel(), kIgnoredLabel)};
}

SummedLoss TranscriptionTask::next_loss(Context& context) {
  return loss_of(next_batch(), recipe_.train.label_smoothing, context);
}

// Greedily of a CTC head; with eval.beams of a decoder.
std::vector<std::string> TranscriptionTask::decode(const SpokenTexts& texts, const SpeechBatch& batch,
                                                   Context& context) const {
  std::vector<std::string> decoded;
  const auto rows = batch.rows.size();
  if (decoder_ != nullptr) {
    std::size_t longest = 0;
    for (const std::int64_t row : batch.rows) longest = std::max(longest, texts[row].labels.size());
    GenerationOptions options = generation_;
    options.max_length.reset();
    options.max_new_tokens = recipe_.eval.max_new_tokens > 0 ? recipe_.eval.max_new_tokens
                                                             : 2 * static_cast<std::int64_t>(longest) + 10;
    if (const auto positions = decoder_->max_positions())
      options.max_new_tokens = std::min(*options.max_new_tokens, *positions - std::ssize(prompt_));
    options.num_beams = recipe_.eval.beams;
    options.do_sample = false;
    const auto decoding = decoder_->decode(batch.inputs, context);
    const std::vector<std::vector<std::int64_t>> prompts(rows, prompt_);
    for (const auto& hypotheses : search(*decoding, prompts, options, {.stop = options_.stop}, context))
      decoded.emplace_back(trimmed(tokenizer_->decode(hypotheses.front().ids)));
    return decoded;
  }
  const Tensor logits =
      encoder_->predict(encoder_->encode(batch.inputs, context), {}, context).to(DType::f32).contiguous();
  const std::int64_t time = logits.size(1), classes = logits.size(2);
  for (std::size_t i = 0; i < rows; ++i) {
    std::int64_t frames = time;
    if (batch.inputs.mask.defined()) {
      const std::int64_t samples = batch.inputs.mask.size(1);
      const auto* mask = batch.inputs.mask.data<std::int64_t>() + static_cast<std::int64_t>(i) * samples;
      frames = frames_of(std::count(mask, mask + samples, 1));
    }
    std::vector<std::int64_t> ids;
    for (std::int64_t t = 0; t < frames; ++t) {
      const float* row = logits.data<float>() + (static_cast<std::int64_t>(i) * time + t) * classes;
      ids.push_back(std::max_element(row, row + std::min(classes, tokenizer_->vocab_size())) - row);
    }
    decoded.push_back(tokenizer_->decode_clean(ids, false));
  }
  return decoded;
}

std::optional<Evaluation> TranscriptionTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation TranscriptionTask::evaluate(const SpokenTexts& texts) const {
  const NoGradients off;
  Communicator& world = processes_of(options_);
  BatchPlan plan(lengths_of(texts), {.batch_tokens = recipe_.train.batch_tokens, .shuffle = false});
  BackgroundReader<SpeechBatch> reader([make = SpeechBatchMaker{*processor_}, &texts, &plan, &world,
                                        left = plan.batches_in_epoch(), i = std::int64_t{0}]() mutable {
    for (; left > 0; --left) {
      const BatchPlan::Rows rows = plan.next();
      if (i++ % world.size() != world.rank()) continue;
      --left;
      return make(texts, rows);
    }
    return SpeechBatch{};
  });
  double sum = 0, targets = 0;
  std::vector<std::string> hypotheses, references;
  std::vector<Prediction> predictions;
  for (SpeechBatch batch = reader.next(); !batch.rows.empty(); batch = reader.next()) {
    Context context;
    context.stop = options_.stop;
    const SummedLoss loss = loss_of(batch, 0, context);
    sum += loss.sum.item();
    targets += static_cast<double>(loss.tokens);
    std::vector<std::string> decoded = decode(texts, batch, context);
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const SpokenText spoken = texts[batch.rows[i]];
      predictions.push_back(
          {.number = batch.rows[i], .text = spoken.file, .right = spoken.text, .predicted = decoded[i]});
      hypotheses.push_back(std::move(decoded[i]));
      references.push_back(spoken.text);
    }
  }
  const std::vector<double> total = world.sum({sum, targets});
  hypotheses = gather_texts(world, hypotheses), references = gather_texts(world, references);
  return {.loss = total[0] / total[1],
          .metrics = {{"wer", word_error_rate(hypotheses, references).percent(), true},
                      {"cer", character_error_rate(hypotheses, references).percent(), true}},
          .predictions = gather_predictions(world, std::move(predictions))};
}

void TranscriptionTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  write_file(directory / "preprocessor_config.json", preprocessor_->text() + "\n");
  model_->save(directory, dtype);
  if (spoken_.empty() || recipe_.lora.rank > 0) return;
  const std::filesystem::path file = directory / "generation_config.json";
  write_file(file, Config::load(file).with(spoken_).text() + "\n");
}

std::string TranscriptionTask::fingerprint() const {
  Fingerprint hash;
  for (std::int64_t i = 0; i < train_->size(); ++i) {
    const SpokenText text = (*train_)[i];
    hash.add(static_cast<std::uint64_t>(text.samples));
    hash.add(std::filesystem::path(text.file).filename().string());
    for (const std::int64_t label : text.labels) hash.add(static_cast<std::uint64_t>(label));
  }
  return hash.text();
}

}  // namespace heed
