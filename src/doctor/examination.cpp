// The pathways of a model, the ids that they are fed, and what several checks share.
#include "doctor/examination.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed::doctor {
namespace {

constexpr std::size_t kFewestIds = 8;
constexpr std::int64_t kSamples = 4000;     // of a waveform of any length: a quarter of a second at 16 kHz
constexpr std::int64_t kSourceTokens = 12;  // of the source that a decoder is run with
constexpr std::int64_t kTargetTokens = 6;   // that a decoder reads where the source is looked at

std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Numbers in [-1, 1) for each row, from a seed of the row.
Tensor noise(const Shape& shape, const std::function<std::uint64_t(std::int64_t)>& seed_of_row) {
  Tensor made = Tensor::empty(shape);
  const std::int64_t rows = shape[0], each = made.numel() / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint64_t seed = seed_of_row(r);
    float* to = made.data<float>() + r * each;
    for (std::int64_t i = 0; i < each; ++i)
      to[i] = static_cast<float>(mixed(seed + static_cast<std::uint64_t>(i)) >> 40) * 0x1p-23f - 1.0f;
  }
  return made;
}

std::uint64_t seed_of(const Tensor& ids, std::int64_t row) {
  std::uint64_t seed = 1;
  const std::int64_t* first = ids.data<std::int64_t>() + row * ids.size(1);
  for (std::int64_t t = 0; t < ids.size(1); ++t) seed = mixed(seed ^ static_cast<std::uint64_t>(first[t]));
  return seed;
}

Tensor last_hidden(const TensorMap& outputs) {
  if (const auto found = outputs.find("last_hidden_state"); found != outputs.end()) return found->second;
  std::int64_t last = 0;
  while (outputs.contains("hidden_states." + std::to_string(last + 1))) ++last;
  return outputs.at("hidden_states." + std::to_string(last));
}

bool takes_position_ids(const DecoderModel& model) {
  Context context;
  const Tensor one = Tensor::zeros({1, 1}, DType::i64);
  try {
    model.forward({{"input_ids", one}, {"position_ids", one}}, {}, context);
  } catch (const Error&) {
    return false;
  }
  return true;
}

Pathway pathway_of(const DecoderModel& model) {
  const bool counts = takes_position_ids(model);
  return {.name = "decoder",
          .causal = true,
          .run = [&model, counts](const Tensor& ids, const Tensor& mask, const Tensor& positions,
                                  Context& context) {
            if (!mask.defined()) return model.encode({.ids = ids}, context);  // without the output map
            TensorMap inputs{{"input_ids", ids}, {"attention_mask", mask}};
            if (positions.defined() && counts) inputs["position_ids"] = positions;
            return last_hidden(model.forward(inputs, {}, context));
          }};
}

Tensor ones_like(const Tensor& ids) { return Tensor::full(ids.shape(), 1, DType::i64); }

}  // namespace

Tensor Pathway::operator()(const Tensor& ids) const {
  Context context;
  return run(ids, {}, {}, context);
}

Examination::Examination(const CheckedModel& checked_model) : checked(checked_model) {
  if (checked.files && checked.files->has("config.json"))
    config_ = Config::load(*checked.files, "config.json");
  if (checked.model == nullptr) return;
  fill_stream();
  add_pathways();
}

bool Examination::decodes() const {
  return traits().is(ModelKind::decoder) || traits().is(ModelKind::encoder_decoder);
}

std::int64_t Examination::vocab_size() const {
  if (checked.model != nullptr) return model().vocab_size();
  return config_ ? config_->integer("vocab_size", 0) : 0;
}

std::int64_t Examination::id_limit() const {
  std::int64_t limit = vocab_size();
  if (!config_) return limit;
  for (const char* key : {"vocab_size", "decoder_vocab_size"}) {
    if (config_->has(key)) limit = std::min(limit, config_->integer(key, limit));
  }
  return limit;
}

std::int64_t Examination::pad_id() const {
  return visit(
      model(), [](const EncoderModel& encoder) { return encoder.pad_id(); },
      [](const EncoderDecoderModel& both) { return both.pad_id(); },
      [](const DualEncoderModel& dual) { return dual.text().pad_id(); },
      [this](const DecoderModel&) {
        const std::vector<std::int64_t> own =
            config_ ? config_->integers("pad_token_id") : std::vector<std::int64_t>();
        return own.empty() || own.front() < 0 ? 0 : own.front();
      });
}

void Examination::fill_stream() {
  const std::int64_t limit = id_limit();
  std::set<std::int64_t> special{pad_id()};
  for (const char* key : {"bos_token_id", "eos_token_id", "decoder_start_token_id", "mask_token_id"}) {
    if (!config_ || !config_->has(key)) continue;
    for (const std::int64_t id : config_->integers(key)) special.insert(id);
  }
  if (tokenizer() != nullptr) {
    for (const std::int64_t id : tokenizer()->encode(kProse, false).ids) {
      if (id < limit && !special.contains(id)) stream_.push_back(id);
    }
    if (std::set<std::int64_t>(stream_.begin(), stream_.end()).size() >= kFewestIds) return;
  }
  stream_.clear();
  for (std::int64_t i = 0; i < std::min<std::int64_t>(limit, 97); ++i) {  // scattered over the vocabulary
    const std::int64_t id = (i * 37 + 5) % std::min<std::int64_t>(limit, 1009);
    if (!special.contains(id) && std::find(stream_.begin(), stream_.end(), id) == stream_.end())
      stream_.push_back(id);
  }
  if (stream_.empty()) stream_ = {0};
}

Tensor Examination::ids(std::int64_t rows, std::int64_t length) const {
  std::vector<std::int64_t> all;
  const auto count = static_cast<std::int64_t>(stream_.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t t = 0; t < length; ++t)
      all.push_back(stream_[static_cast<std::size_t>((r * 5 + t) % count)]);
  }
  return Tensor::from(all, {rows, length});
}

std::int64_t Examination::other_id(std::int64_t id) const {
  for (const std::int64_t other : stream_) {
    if (other != id) return other;
  }
  return id;
}

std::int64_t Examination::length(std::int64_t wanted) const {
  return std::min(wanted, model().max_positions().value_or(wanted));
}

ModelInput Examination::first_input(const InputSpec& wanted, const Tensor& ids, const Tensor& mask) const {
  if (wanted.kind == InputKind::tokens) return {.ids = ids, .mask = mask};
  std::vector<std::int64_t> sizes{ids.size(0)};
  for (const std::int64_t size : wanted.fitting()) sizes.push_back(size == -1 ? kSamples : size);
  ModelInput input{.values = noise(Shape(sizes), [&](std::int64_t row) { return seed_of(ids, row); })};
  if (wanted.kind == InputKind::patches) {  // in one row
    input.grids = Tensor::empty({ids.size(0), 2}, DType::i64);
    for (std::int64_t i = 0; i < input.grids.numel(); ++i)
      input.grids.data<std::int64_t>()[i] = i % 2 == 0 ? 1 : input.values.size(1);
  }
  return input;
}

// The first ids of the stream, in every row.
Tensor Examination::same_rows(std::int64_t rows, std::int64_t wanted) const {
  const std::int64_t time = length(wanted);
  return broadcast_to(ids(1, time), {rows, time}).contiguous();
}

TensorMap Examination::decoder_inputs(const Tensor& ids) const {
  if (!traits().is(ModelKind::encoder_decoder)) return {{"input_ids", ids}};
  const InputSpec input = model().input();
  if (input.kind !=
      InputKind::tokens)  // a sound or an image, which takes a thousand times as long as the ids
    return {{"encoder_outputs", source_states(ids.size(0))}, {"decoder_input_ids", ids}};
  const Tensor source = same_rows(ids.size(0), kSourceTokens);  // so that only the decoder's ids differ
  return {{input.name, first_input(input, source, {}).first()}, {"decoder_input_ids", ids}};
}

Tensor Examination::source_states(std::int64_t rows) const {
  if (!source_states_.defined()) {
    Context context;
    source_states_ = as<EncoderDecoderModel>(model())->encode(
        first_input(model().input(), same_rows(1, kSourceTokens), {}), context);
  }
  return broadcast_to(source_states_, {rows, source_states_.size(1), source_states_.size(2)}).contiguous();
}

void Examination::add_encoder_pathway(const char* name, const EncoderModel& encoder) {
  const bool tokens = encoder.input().kind == InputKind::tokens;
  pathways_.push_back(
      {.name = name,
       .causal = encoder.is_causal(),
       .tokens = tokens,
       .masks = tokens,
       .run = [this, &encoder](const Tensor& ids, const Tensor& mask, const Tensor&, Context& context) {
         return encoder.encode(first_input(encoder.input(), ids, mask), context);
       }});
}

void Examination::add_pathways() {
  visit(
      model(), [this](const DecoderModel& decoder) { pathways_.push_back(pathway_of(decoder)); },
      [this](const EncoderModel& encoder) { add_encoder_pathway("encoder", encoder); },
      [this](const DualEncoderModel& dual) {
        add_encoder_pathway("text_encoder", dual.text());
        add_encoder_pathway("image_encoder", dual.image());
      },
      [this](const EncoderDecoderModel& both) { add_both_pathways(both); });
}

void Examination::add_both_pathways(const EncoderDecoderModel& both) {
  const bool tokens = both.input().kind == InputKind::tokens;
  pathways_.push_back(
      {.name = "encoder",
       .tokens = tokens,
       .masks = tokens,
       .run = [this, &both](const Tensor& ids, const Tensor& mask, const Tensor&, Context& context) {
         return both.encode(first_input(both.input(), ids, mask.defined() ? mask : ones_like(ids)), context);
       }});
  pathways_.push_back({.name = "decoder",
                       .causal = true,
                       .masks = false,
                       .run = [this](const Tensor& ids, const Tensor&, const Tensor&, Context& context) {
                         return last_hidden(model().forward(decoder_inputs(ids), {}, context));
                       }});
  if (!tokens) return;
  pathways_.push_back(
      {.name = "source",
       .run = [this](const Tensor& ids, const Tensor& mask, const Tensor&, Context& context) {
         TensorMap inputs{{"input_ids", ids}, {"decoder_input_ids", same_rows(ids.size(0), kTargetTokens)}};
         if (mask.defined()) inputs["attention_mask"] = mask;
         return last_hidden(model().forward(inputs, {}, context));
       }});
}

std::unique_ptr<Decoding> Examination::decode(std::int64_t rows) const {
  return visit(
      model(), [&](const DecoderModel& decoder) { return decoder.decode(rows); },
      [&](const EncoderDecoderModel& both) {
        Context context;
        const bool tokens = both.input().kind == InputKind::tokens;
        const Tensor source = same_rows(tokens ? rows : 1, kSourceTokens);
        auto decoding = both.decode(first_input(both.input(), source, ones_like(source)), context);
        if (!tokens) decoding->reorder(std::vector<std::int64_t>(static_cast<std::size_t>(rows), 0));
        return decoding;
      },
      [](const Model&) { return std::unique_ptr<Decoding>(); });
}

Tensor Examination::full_logits(const Tensor& ids) const {
  Context context;
  const TensorMap outputs = model().forward(decoder_inputs(ids), {}, context);
  const auto logits = outputs.find("logits");
  return logits == outputs.end() ? Tensor() : at_position(logits->second, ids.size(1) - 1);
}

std::string percent(double part) {
  return std::abs(part) < 0.995 ? fmt::format("{:.2g} %", 100 * part) : fmt::format("{:.0f} %", 100 * part);
}

double relative_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to(DType::f32).to_vector<float>(), y = b.to(DType::f32).to_vector<float>();
  HEED_ASSERT(x.size() == y.size(), "tensors of one shape are compared");
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!std::isfinite(d)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to(DType::f32).to_vector<float>(), y = b.to(DType::f32).to_vector<float>();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

Tensor at_position(const Tensor& x, std::int64_t t) {
  return reshape(slice(x, 1, t, t + 1), {x.size(0), x.size(2)});
}

void add(Finding& total, const std::string& what, Finding part) {
  const auto rank = [](CheckStatus s) { return s == CheckStatus::skipped ? -1 : static_cast<int>(s); };
  const bool first = total.measurement.empty();
  const bool worse = first || rank(part.status) > rank(total.status);
  if (worse) {
    total.status = part.status;
    total.advice = std::move(part.advice);
  }
  const std::string ending = ": " + part.measurement;
  if (total.measurement.ends_with(ending)) {  // "encoder, decoder: the same bits"
    total.measurement.insert(total.measurement.size() - ending.size(), ", " + what);
  } else {
    total.measurement += (first ? "" : "; ") + what + ending;
  }
  for (auto& [name, value] : part.values)  // "decoder.layers.3.out" begins with its pathway already
    total.values.emplace_back(name.starts_with(what + ".") ? name : what + "." + name, value);
}

Finding skip(std::string reason) {
  return {.status = CheckStatus::skipped, .measurement = std::move(reason)};
}

}  // namespace heed::doctor
