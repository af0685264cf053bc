// Reads pairs of answers, asks the reference for their log-probabilities, and trains on both.
#include "train/tasks/preference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>

#include "chat/conversation.h"
#include "core/json.h"
#include "core/stop_scope.h"
#include "data/chat_forms.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "train/tasks/data_counts.h"
#include "train/tasks/language_modeling.h"
#include "train/tasks/model_source.h"

namespace heed {
namespace {

constexpr const char* kReferenceFile = "reference_logps.safetensors";

void add(Fingerprint& hash, const PairSet& set) {
  hash.add(set.corpus->ids());
  for (const auto& [begin, end] : set.corpus->answers()) {
    hash.add(static_cast<std::uint64_t>(begin));
    hash.add(static_cast<std::uint64_t>(end));
  }
  for (const PreferencePair& pair : set.pairs) {
    for (const DocumentPart& part : {pair.chosen, pair.rejected}) {
      hash.add(static_cast<std::uint64_t>(part.begin));
      hash.add(static_cast<std::uint64_t>(part.end));
    }
  }
}

// Changes with the files of a model, without reading them.
std::string identity_of(const std::filesystem::path& model) {
  Fingerprint hash;
  const auto add_file = [&](const std::filesystem::path& file) {
    hash.add(file.string());
    hash.add(static_cast<std::uint64_t>(std::filesystem::file_size(file)));
    hash.add(static_cast<std::uint64_t>(std::filesystem::last_write_time(file).time_since_epoch().count()));
  };
  if (std::filesystem::is_regular_file(model)) {
    add_file(model);
  } else {
    for (const std::filesystem::path& file :
         {model / "config.json", model / "model.safetensors", model / "model.safetensors.index.json"})
      if (std::filesystem::exists(file)) add_file(file);
  }
  return hash.text();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<ExampleLength> PairSet::lengths() const {
  std::vector<ExampleLength> all;
  for (const PreferencePair& pair : pairs)
    all.push_back({2 * pair.longer(), pair.chosen.size() + pair.rejected.size()});
  return all;
}

PairBatch PairSet::batch(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& all,
                         std::int64_t padding, bool likelihood) const {
  const auto pair_of = [this](std::int64_t row) -> const PreferencePair& {
    return pairs[static_cast<std::size_t>(row)];
  };
  std::int64_t width = 0, tokens = 0;
  for (const std::int64_t row : rows) width = std::max(width, pair_of(row).longer());
  for (const std::int64_t row : all) tokens += pair_of(row).chosen.size() - 1;
  const Shape shape{2 * std::ssize(rows), width};
  PairBatch batch{Tensor::full(shape, static_cast<double>(padding), DType::i64),
                  Tensor::full(shape, static_cast<double>(kIgnoredLabel), DType::i64), Tensor::zeros(shape),
                  rows, static_cast<double>(all.size()) / static_cast<double>(tokens)};
  std::int64_t first = 0;
  for (const bool chosen : {true, false}) {
    for (const std::int64_t row : rows) {
      const DocumentPart& part = chosen ? pair_of(row).chosen : pair_of(row).rejected;
      std::int64_t* labels = batch.labels.data<std::int64_t>() + first;
      std::copy_n(corpus->ids().data() + part.begin, part.size(), batch.ids.data<std::int64_t>() + first);
      label_part(*corpus, corpus->answers(), part, labels);
      std::transform(labels, labels + width, batch.answers.data<float>() + first,
                     [](std::int64_t label) { return label == kIgnoredLabel ? 0.0F : 1.0F; });
      if (chosen && likelihood) label_part(*corpus, {}, part, labels);
      first += width;
    }
  }
  return batch;
}

PreferenceTask::PreferenceTask(const Recipe& recipe, const TrainOptions& options,
                               const std::filesystem::path& checkpoint)
    : recipe_(recipe), options_(options) {
  const std::filesystem::path from = model_source(options, checkpoint);
  if (from.empty())
    throw Error("recipe: task.kind: expected a model to train (--init), got none for \"preference\"");
  tokenizer_ = load_tokenizer(from);
  report_other_ids(*tokenizer_, from, options_);
  if (ModelChat::has_template(from.string())) chat_ = ModelChat::load(from.string(), *tokenizer_);
  train_ = read(recipe_.data.train, "training");
  dev_ = read(recipe_.data.dev, "development");
  test_ = read(recipe_.data.test, "the test");
  if (dev_ == nullptr && recipe_.data.dev_share > 0) {
    dev_ = std::make_shared<PairSet>(PairSet{train_->corpus, {}});
    dev_->pairs = hold_out_prompts(*train_->corpus, recipe_.data.dev_share, train_->pairs);
  }
  model_ = load_as<DecoderModel>(from);
  check_fits(*tokenizer_, *model_);
  check_context(recipe_, model_->max_positions());
  BatchPlan plan(train_->lengths(), plan_options(recipe_, options_));  // before the reference is asked
  if (has_reference(recipe_.task.loss)) find_reference(checkpoint);
  parameters_ = trained_parameters(*model_, recipe_);
  message(describe_model(*model_, *tokenizer_));
  begin(std::move(plan), [set = std::shared_ptr<const PairSet>(train_), pad = padding(),
                          likelihood = learns_likelihood()](const BatchPlan::Rows& planned) {
    return set->batch(planned.rows, planned.all, pad, likelihood);
  });
}

// Without a template: the answer begins where the tokens of prompt and answer differ from those of the
// prompt.
TokenizedPart PreferenceTask::text(const std::string& prompt, const std::string& answer,
                                   const std::string& where) const {
  const std::vector<std::int64_t> before = tokenizer_->encode(prompt).ids;
  TokenizedPart sequence{tokenizer_->encode(prompt + answer).ids};
  const auto end = tokenizer_->eos_id();
  if (sequence.ids.empty()) throw Error(where + ": expected an answer of tokens, got none");
  if (end && sequence.ids.back() != *end) sequence.ids.push_back(*end);
  const auto differ =
      std::mismatch(sequence.ids.begin(), sequence.ids.end() - 1, before.begin(), before.end());
  sequence.answers = {{differ.first - sequence.ids.begin(), std::ssize(sequence.ids)}};
  return sequence;
}

TokenizedPart PreferenceTask::chat(Json conversation, const std::string& where) const {
  if (!chat_)
    throw Error(where +
                ": expected prompt, chosen and rejected as texts, got messages, for which the model has no "
                "chat template");
  std::vector<EncodedChat> parts =
      chat_->encode_answers(heed::chat::Conversation(std::move(conversation), where));
  if (parts.size() > 1)
    throw Error(where +
                ": expected one answer after the common beginning, got several, which the model's template "
                "does not write as they are generated");
  if (!parts.front().weights.empty())
    throw Error(where + ": expected answers of weight 0 or 1 to prefer, got another weight");
  return {std::move(parts.front().encoding.ids), std::move(parts.front().generated)};
}

std::vector<TokenizedPart> PreferenceTask::tokenize(const TextPart& part) const {
  PreferenceLine line = read_preference_line(parse_json(part.text, part.where), part.where);
  if (!line.is_chat())
    return {text(line.prompt, line.chosen, part.where), text(line.prompt, line.rejected, part.where)};
  return {chat(std::move(line.chosen_chat), part.where), chat(std::move(line.rejected_chat), part.where)};
}

std::shared_ptr<PairSet> PreferenceTask::read(const std::filesystem::path& path, const char* name) const {
  if (path.empty()) return nullptr;
  TextReader reader(path, recipe_.data);
  UnusableParts bad;
  auto corpus = std::make_shared<const TextCorpus>(tokenize_texts(
      reader, [this](const TextPart& part) { return tokenize(part); }, options_.output, &bad));
  report_unusable(bad, "pairs", path, recipe_, options_);
  PreferencePairs found =
      preference_pairs(*corpus, recipe_.task.context,
                       recipe_.data.longer == "skip" ? LongDocuments::skip : LongDocuments::truncate);
  report(found, path);
  message(fmt::format("{}: {} tokens in {} pairs for {}", path.string(), corpus->ids().size(),
                      found.pairs.size(), name));
  if (reader.control_bytes() > 0)
    message(fmt::format("warning: {}: {}", path.string(), data::control_bytes_text(reader.control_bytes())));
  const bool skips = recipe_.data.longer == "skip";
  return std::make_shared<PairSet>(PairSet{std::move(corpus), std::move(found.pairs),
                                           skips ? 0 : found.longer,
                                           found.equal + found.without_targets + (skips ? found.longer : 0)});
}

void PreferenceTask::report(const PreferencePairs& found, const std::filesystem::path& path) const {
  std::vector<std::string> said;
  if (found.longer > 0)
    said.push_back(fmt::format("{} of {} pairs have more than {} tokens (task.context) and are {}",
                               found.longer, found.all, recipe_.task.context,
                               recipe_.data.longer == "skip" ? "left out" : "truncated at their ends"));
  if (found.equal > 0) said.push_back(fmt::format("left out, with equal answers: {}", found.equal));
  if (found.without_targets > 0)
    said.push_back(fmt::format("left out, without an answer in what is kept: {}", found.without_targets));
  const std::string text = fmt::format("{}", fmt::join(said, "; "));
  if (found.pairs.empty())
    throw Error(fmt::format("{}: expected pairs to learn from, got none: {} (the longest has {} tokens)",
                            path.string(), text, found.longest));
  if (!said.empty()) message(fmt::format("warning: {}: {}", path.string(), text));
}

template <class Handle>
void PreferenceTask::for_each_batch(const PairSet& set, const Handle& handle) const {
  std::vector<ExampleLength> lengths = set.lengths();
  for (ExampleLength& length : lengths)  // a longer pair is a batch
    length.longest = std::min(length.longest, recipe_.train.batch_tokens);
  heed::for_each_batch(std::move(lengths), recipe_, options_, [&](const std::vector<std::int64_t>& rows) {
    throw_if_stopped();
    handle(set.batch(rows, rows, padding(), learns_likelihood()));
  });
}

Tensor PreferenceTask::token_losses(const DecoderModel& model, const PairBatch& batch,
                                    Context& context) const {
  return model.loss({.ids = batch.ids}, batch.labels,
                    {.ignore_index = kIgnoredLabel, .reduction = Reduction::none}, context, {});
}

PreferenceTask::Totals PreferenceTask::totals(const PairSet& set, const PairBatch& batch,
                                              double label_smoothing, Context& context) const {
  const Tensor losses = token_losses(*model_, batch, context);  // [2P, T]
  const Tensor logps = neg(sum(losses * batch.answers, 1).to(DType::f64)),
               tokens = sum(batch.answers, 1).to(DType::f64);
  const std::int64_t pairs = std::ssize(batch.rows);
  const auto answers = [&](std::int64_t side) {
    const auto half = [&](const Tensor& all) { return slice(all, 0, side * pairs, (side + 1) * pairs); };
    AnswerLogps result{.policy = half(logps), .tokens = half(tokens)};
    if (set.reference.empty()) return result;
    std::vector<double> reference;
    for (const std::int64_t row : batch.rows)
      reference.push_back(set.reference[static_cast<std::size_t>(2 * row + side)]);
    result.reference = Tensor::from(reference, {pairs});
    return result;
  };
  const PreferenceLoss loss = preference_loss(recipe_.task, label_smoothing, answers(0), answers(1));
  Totals totals{.loss = sum(loss.losses)};
  if (learns_likelihood()) totals.likelihood = sum(slice(losses, 0, 0, pairs)).to(DType::f64);
  double right = 0, chosen = 0, rejected = 0;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double a = loss.chosen_rewards.data<double>()[i], b = loss.rejected_rewards.data<double>()[i];
    right += a > b;
    chosen += a;
    rejected += b;
  }
  totals.metrics = {100 * right, chosen - rejected, chosen, rejected};
  return totals;
}

std::vector<std::string> PreferenceTask::metrics() const {
  return {"accuracy", "margin", "rewards/chosen", "rewards/rejected"};
}

SummedLoss PreferenceTask::next_loss(Context& context) {
  const PairBatch batch = next_batch();
  if (batch.rows.empty()) return {};
  Totals sums = totals(*train_, batch, recipe_.train.label_smoothing, context);
  if (sums.likelihood.defined()) sums.loss = sums.loss + sums.likelihood * batch.per_token;
  return {sums.loss, std::ssize(batch.rows), {}, std::move(sums.metrics)};
}

Evaluation PreferenceTask::evaluate(const PairSet& set) const {
  const NoGradients off;
  const std::vector<std::string> names = metrics();
  double loss = 0, likelihood = 0, tokens = 0;
  std::vector<double> sums(names.size());
  for_each_batch(set, [&](const PairBatch& batch) {
    Context context;
    const Totals of_batch = totals(set, batch, 0, context);
    loss += of_batch.loss.item();
    if (of_batch.likelihood.defined()) likelihood += of_batch.likelihood.item();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_batch.metrics[i];
  });
  for (const PreferencePair& pair : set.pairs) tokens += static_cast<double>(pair.chosen.size() - 1);
  sums.insert(sums.end(), {loss, likelihood});
  const std::vector<double> total = processes_of(options_).sum(sums);
  const auto pairs = static_cast<double>(set.pairs.size());
  Evaluation result{.loss = total[names.size()] / pairs + total[names.size() + 1] / tokens};
  for (std::size_t i = 0; i < names.size(); ++i) result.metrics.push_back({names[i], total[i] / pairs});
  return result;
}

std::optional<Evaluation> PreferenceTask::test() {
  if (test_ == nullptr) return std::nullopt;
  return evaluate(*test_);
}

std::vector<std::pair<const char*, PairSet*>> PreferenceTask::sets() const {
  std::vector<std::pair<const char*, PairSet*>> all{{"train", train_.get()}};
  if (dev_ != nullptr) all.emplace_back("dev", dev_.get());
  if (test_ != nullptr) all.emplace_back("test", test_.get());
  return all;
}

// The model itself, if it is not trained yet; else, or with task.reference, another one.
void PreferenceTask::find_reference(const std::filesystem::path& checkpoint) {
  if (options_.output.empty()) {  // a dry run, whose steps take as long with any numbers
    for (const auto& [name, set] : sets()) set->reference.assign(2 * set->pairs.size(), 0.0);
    return message("reference: not asked in a dry run, in which rewards are no rewards");
  }
  const std::string& given = recipe_.task.reference;
  const std::filesystem::path model = given.empty() ? options_.init : find_model(given),
                              file = options_.output / kReferenceFile;
  Fingerprint data;
  for (const auto& [name, set] : sets()) add(data, *set);
  const std::string identity = model.empty() ? "" : identity_of(model);
  Communicator& world = processes_of(options_);
  const bool found = load_reference(file, data.text(), identity);
  if (world.sum({found ? 1.0 : 0.0})[0] == world.size())
    return message("reference: the log-probabilities of " + file.string());
  if (given.empty() && checkpoint.empty()) {
    compute_reference(*model_, model.string());
  } else if (model.empty()) {
    throw Error(file.string() +
                ": not found, or of other data (give --init, the model that the run started from)");
  } else {
    const std::unique_ptr<DecoderModel> reference = load_as<DecoderModel>(model);
    check_fits(*tokenizer_, *reference);
    check_context(recipe_, reference->max_positions());
    compute_reference(*reference, model.string());
  }
  if (!world.is_first()) return;
  std::vector<NamedTensor> tensors;
  for (const auto& [name, set] : sets())
    tensors.push_back({name, Tensor::from(set->reference, {std::ssize(set->reference)})});
  save_safetensors(file, tensors, {{"data", data.text()}, {"model", identity}});
}

// False if there is no file, or one of other data or of another model. Of a run that goes on, the model is
// known only if it is given again.
bool PreferenceTask::load_reference(const std::filesystem::path& file, const std::string& data,
                                    const std::string& model) {
  if (!std::filesystem::exists(file)) return false;
  const SafetensorsFile kept = SafetensorsFile::open(file);
  const auto is = [&](const char* key, const std::string& value) {
    const auto found = kept.metadata().find(key);
    return found != kept.metadata().end() && found->second == value;
  };
  if (!is("data", data) || !(model.empty() || is("model", model))) return false;
  for (const auto& [name, set] : sets()) {
    set->reference = kept.get(name).to_vector<double>();
    if (set->reference.size() != 2 * set->pairs.size()) return false;
  }
  return true;
}

void PreferenceTask::compute_reference(const DecoderModel& model, const std::string& name) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t pairs = 0;
  for (const auto& [of, set] : sets()) pairs += set->pairs.size();
  message(fmt::format("reference: computing the log-probabilities of {} pairs with {}", pairs, name));
  for (const auto& [of, set] : sets()) set->reference = logps_of(model, *set, of);
  message(fmt::format("reference: done in {:.1f} s", seconds_since(start)));
}

std::vector<double> PreferenceTask::logps_of(const DecoderModel& model, const PairSet& set,
                                             const std::string& name) const {
  constexpr double kReportEach = 10;  // seconds
  const NoGradients off;
  const auto start = std::chrono::steady_clock::now();
  Communicator& world = processes_of(options_);
  double reported = 0;
  std::size_t done = 0;
  std::vector<double> logps(2 * set.pairs.size());
  for_each_batch(set, [&](const PairBatch& batch) {
    Context context;
    const auto sums =
        sum(token_losses(model, batch, context) * batch.answers, 1).to(DType::f64).to_vector<double>();
    const std::size_t pairs = batch.rows.size();
    for (std::size_t i = 0; i < pairs; ++i) {
      for (const std::size_t side : {0, 1})
        logps[2 * static_cast<std::size_t>(batch.rows[i]) + side] = -sums[side * pairs + i];
    }
    done += pairs * static_cast<std::size_t>(world.size());
    const double seconds = seconds_since(start);
    if (seconds < reported + kReportEach || done >= set.pairs.size()) return;
    reported = seconds;
    message(fmt::format("reference: about {} of {} pairs of {}, {:.0f} s left", done, set.pairs.size(), name,
                        seconds / static_cast<double>(done) * static_cast<double>(set.pairs.size() - done)));
  });
  return world.sum(logps);
}

void PreferenceTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  model_->save(directory, dtype);
}

std::string PreferenceTask::fingerprint() const {
  Fingerprint hash;
  for (const auto& set : {train_, dev_})
    if (set != nullptr) add(hash, *set);
  return hash.text();
}

DataSummary PreferenceTask::data() const {
  DataCounts counts("pairs", "tokens", static_cast<double>(recipe_.task.context));
  for (const auto& [set, name] :
       {std::pair(train_, "training"), std::pair(dev_, "development"), std::pair(test_, "test")}) {
    if (set == nullptr) continue;
    counts.begin(name);
    counts.set().truncated = set->truncated;
    counts.set().left_out = set->left_out;
    for (const PreferencePair& pair : set->pairs) {
      const auto ids = std::as_bytes(
          set->corpus->ids().subspan(static_cast<std::size_t>(pair.chosen.begin),
                                     static_cast<std::size_t>(pair.rejected.end - pair.chosen.begin)));
      counts.add(std::hash<std::string_view>()({reinterpret_cast<const char*>(ids.data()), ids.size()}));
      counts.add_length(static_cast<double>(pair.longer()));
    }
  }
  return counts.finish();
}

}  // namespace heed
