// Labels of images: reading, augmenting, and the loss of a batch.
#include "train/tasks/image_classification.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/stop_scope.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/image/image.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "heed/threads.h"
#include "image/decoder.h"
#include "io/processor_config.h"
#include "models/labels.h"
#include "models/named_tensors.h"
#include "train/run/run.h"
#include "train/tasks/labeled_task.h"
#include "train/tasks/model_source.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

// First random streams; those of the plan are smaller.
constexpr std::uint64_t kImageStreams = std::uint64_t{1} << 61, kMixtureStreams = std::uint64_t{1} << 62;

RandomStream stream_of(std::uint64_t seed, std::uint64_t first, std::int64_t epoch, std::int64_t number) {
  return {seed, first | static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(number)};
}

// Beta(alpha, alpha) with alpha up to 1, by rejection (Johnk 1964).
double beta(double alpha, const RandomStream& random) {
  constexpr std::uint64_t kTries = 64;  // one of two or more is accepted
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const double u = std::pow(static_cast<double>(random.uniform(2 * i)), 1 / alpha),
                 v = std::pow(static_cast<double>(random.uniform(2 * i + 1)), 1 / alpha);
    if (u + v > 0 && u + v <= 1) return u / (u + v);
  }
  return 1;
}

// The preprocessing of a new model: the whole image, resized to the model's size, levels from -1 to 1.
Config new_preprocessor(const Shape& row) {
  return Config::parse(
      fmt::format(
          R"({{"image_processor_type": "ViTImageProcessor", "do_resize": true, "size": {{"height": {}, "width": {}}},
          "resample": 2, "do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": true,
          "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}})",
          row[1], row[2]),
      "preprocessor_config.json");
}

// Zhang et al. 2018, "mixup: Beyond empirical risk minimization".
void mix(ImageBatch& batch, const Tensor& pixels, const std::vector<std::int64_t>& places) {
  Tensor mixed = Tensor::empty(batch.inputs.values.shape());
  const std::int64_t size = mixed.numel() / mixed.size(0);
  const auto share = static_cast<float>(batch.share);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i) * size;
    const float *one = pixels.data<float>() + at, *other = pixels.data<float>() + places[i] * size;
    float* out = mixed.data<float>() + at;
    for (std::int64_t j = 0; j < size; ++j) out[j] = share * one[j] + (1 - share) * other[j];
  }
  batch.inputs.values = mixed;
}

// The size that images have after preprocessing, which counts for a model that takes any.
Shape size_of(const ImageProcessor& processor, const EncoderModel& model) {
  const Tensor pixels = processor(Tensor::zeros({32, 32, 3}, DType::u8)).pixel_values;
  if (!has_rows(pixels.shape(), model.input().row)) {
    throw Error(fmt::format("preprocessor_config.json: expected images of {} for this {} model, got {}",
                            row_text(model.input().row), model.family(), pixels.str()));
  }
  return {pixels.size(2), pixels.size(3)};
}

ImageBatchMaker maker_of(const ImageProcessor& processor, const EncoderModel& model) {
  const Shape size = size_of(processor, model);
  return {processor, model.labels(), size[0], size[1]};
}

}  // namespace

ImageBatch ImageBatchMaker::operator()(const ChosenRecords<LabeledTexts>& images,
                                       const BatchPlan::Rows& batch) const {
  if (batch.rows.empty()) return {};
  const std::vector<std::int64_t>& all = batch.all;
  std::map<std::int64_t, std::int64_t> partners;
  for (std::size_t i = 0; mixup > 0 && i < all.size(); ++i) partners[all[i]] = all[all.size() - 1 - i];
  std::vector<std::int64_t> rows = batch.rows;
  for (const std::int64_t row : batch.rows) {
    if (const std::int64_t other = partners.empty() ? row : partners[row];
        std::find(rows.begin(), rows.end(), other) == rows.end())
      rows.push_back(other);
  }
  const Tensor pixels = pixels_of(images, rows, batch.position.epoch);
  const auto count = static_cast<std::int64_t>(batch.rows.size());
  ImageBatch made{{.values = slice(pixels, 0, 0, count)}, labels_of(images, batch.rows), batch.rows, {}, 1};
  if (partners.empty()) return made;
  made.share = beta(mixup, stream_of(seed, kMixtureStreams, batch.position.epoch, batch.position.batch));
  std::vector<std::int64_t> others, places;
  for (const std::int64_t row : batch.rows) {
    others.push_back(partners[row]);
    places.push_back(std::find(rows.begin(), rows.end(), others.back()) - rows.begin());
  }
  mix(made, pixels, places);
  made.other_labels = labels_of(images, others);
  return made;
}

Tensor ImageBatchMaker::pixels_of(const ChosenRecords<LabeledTexts>& images,
                                  const std::vector<std::int64_t>& rows, std::int64_t epoch) const {
  std::vector<Tensor> loaded;
  for (const std::int64_t row : rows) {
    const std::string file = images[row].text;
    const Tensor image = load_image(file);
    const Tensor changed = image::augment_image(image, augmentation, height, width, processor.filter(),
                                                stream_of(seed, kImageStreams, epoch, row));
    loaded.push_back((augmentation.crops() ? processor.normalize(std::span(&changed, 1)) : processor(changed))
                         .pixel_values);
    const Tensor& pixels = loaded.back();
    if (pixels.rank() != 4 || pixels.size(2) != height || pixels.size(3) != width)
      throw Error(fmt::format("{}: expected {} x {} pixels after preprocessing, got {}", file, height, width,
                              pixels.str()));
  }
  return concat(loaded, 0);
}

Tensor ImageBatchMaker::labels_of(const ChosenRecords<LabeledTexts>& images,
                                  const std::vector<std::int64_t>& rows) const {
  Tensor labels = Tensor::empty({static_cast<std::int64_t>(rows.size())}, DType::i64);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LabeledText image = images[rows[i]];
    labels.data<std::int64_t>()[i] = label_number(names, image.labels.front(), images.list->where(image), "");
  }
  return labels;
}

ImageClassificationTask::ImageClassificationTask(const Recipe& recipe, const TrainOptions& options,
                                                 const std::filesystem::path& checkpoint)
    : recipe_(recipe), options_(options) {
  std::int64_t skipped = 0;
  auto [all, train, dev, test] = read_parts(
      recipe.data, "images", [this](const std::string& text) { message(text); },
      [&](const std::filesystem::path& path) {
        LabeledTexts found = read_labeled_images(path, recipe.data, options.output);
        skipped += found.skipped;
        return found;
      });
  message(fmt::format("{} images to train on, {} for development, {} for the test{}", train.size(),
                      dev.size(), test.size(),
                      skipped > 0 ? fmt::format(", {} other files skipped", skipped) : ""));
  train_ = train, dev_ = dev, test_ = test;
  look_at_images();
  const std::map<std::string, LabelCount> counts = count_labels(*all);
  const std::vector<std::string> names =
      known_labels(checkpoint.empty() ? options.init : checkpoint, sorted_labels(counts));
  check_labels(names, "labels", recipe.data.train);
  if (const std::string rare = rare_labels(*all, counts, recipe.data); !rare.empty()) message(rare);
  const std::filesystem::path from = checkpoint.empty() ? options.init : checkpoint;
  if (checkpoint.empty() && !from.empty())
    message("starting from the model of " + from.string() + "; [model] of the recipe is not used");
  for (const Images* images : {&dev_, &test_}) {  // before hours of training
    for (std::int64_t i = 0; i < images->size(); ++i) {
      const LabeledText image = (*images)[i];
      label_number(names, image.labels.front(), images->list->where(image), header_hint(image, recipe.data));
    }
  }
  load_or_make(from, label_members(names, "single_label_classification"));
  begin_training();
}

// Of many images only the first are decoded; of the others, the beginnings are read.
void ImageClassificationTask::look_at_images() {
  constexpr std::int64_t kFew = 2000, kAtOnce = 64;
  constexpr double kSeconds = 5;
  const std::int64_t all = train_.size() + dev_.size() + test_.size();
  const Stopwatch watch;
  DataCounts counts("images", "", std::nullopt);
  std::int64_t unreadable = 0, whole = 0;
  std::vector<std::string> first;
  for (const auto& [name, images] :
       {std::pair("training", &train_), std::pair("development", &dev_), std::pair("test", &test_)}) {
    counts.begin(name);
    for (std::int64_t begin = 0; begin < images->size(); begin += kAtOnce) {
      throw_if_stopped();
      const std::int64_t end = std::min(begin + kAtOnce, images->size());
      const bool decodes = all <= kFew || watch.seconds() < kSeconds;
      std::vector<std::string> files, errors(static_cast<std::size_t>(end - begin));
      for (std::int64_t i = begin; i < end; ++i) {
        const LabeledText image = (*images)[i];
        counts.add(content_key(image));
        counts.add_label(image.labels.front());
        files.push_back(image.text);
      }
      parallel_for(end - begin, 1, [&](std::int64_t from, std::int64_t to) {
        for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
          try {
            decodes ? static_cast<void>(load_image(files[i])) : check_image_header(files[i]);
          } catch (const Error& error) {
            errors[i] = error.what();
          }
        }
      });
      whole += decodes ? end - begin : 0;
      for (std::string& error : errors) {
        constexpr std::int64_t kNamed = 3;
        if (!error.empty() && unreadable++ < kNamed) first.push_back(std::move(error));
      }
    }
  }
  data_ = counts.finish();
  message(whole == all ? fmt::format("all {} images were decoded to find damaged ones", all)
                       : fmt::format("{} of {} images were decoded to find damaged ones, of the others the "
                                     "beginnings were read",
                                     whole, all));
  if (unreadable == 0) return;
  throw Error(fmt::format("recipe: data: expected images that can be read, got {} that cannot:\n  {}{}",
                          unreadable, fmt::join(first, "\n  "),
                          unreadable > std::ssize(first) ? "\n  ..." : ""));
}

void ImageClassificationTask::load_or_make(const std::filesystem::path& from, const std::string& members) {
  Generator generator = initial_weights(recipe_);
  const Config base = from.empty() ? new_model_config(recipe_, "{}") : load_model_config(from);
  const std::string head =
      JsonWriter()
          .begin_object()
          .field("architectures", std::vector{class_with_head(base, "ForImageClassification")})
          .end_object()
          .text();
  const Config config = base.with(head).with(members);
  model_ = from.empty() ? make_as<EncoderModel>(config, generator) : load_encoder(from, config, generator);
  if (model_->input().kind != InputKind::pixels)
    throw Error(
        fmt::format("{}: model_type: expected a family of image models for the task "
                    "image-classification, such as vit, got {}",
                    base.where(), model_->family()));
  preprocessor_ = from.empty() ? new_preprocessor(model_->input().fitting())
                               : load_processor_config(ModelFiles(from), "image_processor",
                                                       "how images are resized and normalized");
  processor_ = from.empty() ? make_image_processor(*preprocessor_) : load_image_processor(from);
  parameters_ = trained_parameters(*model_, recipe_);
  message(fmt::format("{}, {} labels", describe_model(*model_), model_->labels().size()));
}

BatchPlan ImageClassificationTask::plan_of(const Images& images, BatchPlanOptions options) const {
  const double pixels = static_cast<double>(size_of(*processor_, *model_).numel());
  const Shape row = model_->input().fitting();
  const auto tokens =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(model_->trained_positions().value_or(1)) *
                                          pixels / static_cast<double>(row[1] * row[2])));
  return {std::vector<ExampleLength>(static_cast<std::size_t>(images.size()), {tokens, tokens}), options};
}

void ImageClassificationTask::begin_training() {
  if (train_.empty()) return;  // an evaluation
  ImageBatchMaker make = maker_of(*processor_, *model_);
  const Recipe::Augment& a = recipe_.augment;
  make.augmentation = {a.crop_scale, a.crop_padding, a.flip, a.jitter};
  make.mixup = a.mixup;
  if (recipe_.task.class_weights.given())
    class_weights_ = class_weights(recipe_.task.class_weights, model_->labels(), data_.sets.front().labels);
  make.seed = static_cast<std::uint64_t>(recipe_.train.seed);
  begin(plan_of(train_, plan_options(recipe_, options_)),
        [images = train_, make = std::move(make)](const BatchPlan::Rows& batch) {
          return make(images, batch);
        });
}

SummedLoss ImageClassificationTask::next_loss(Context& context) {
  const ImageBatch batch = next_batch();
  if (!batch.labels.defined()) return {};
  const Tensor logits = model_->predict(model_->encode(batch.inputs, context), {}, context);
  if (!class_weights_.empty()) return weighted_loss(batch, logits);
  const CrossEntropyOptions options{.label_smoothing = recipe_.train.label_smoothing,
                                    .reduction = Reduction::sum};
  const auto loss = [&](const Tensor& labels) {
    return sequence_loss(logits, labels, LabelProblem::single_label, options);
  };
  const Tensor sum = batch.other_labels.defined()
                         ? loss(batch.labels) * batch.share + loss(batch.other_labels) * (1 - batch.share)
                         : loss(batch.labels);
  return {sum, batch.labels.numel()};
}

SummedLoss ImageClassificationTask::weighted_loss(const ImageBatch& batch, const Tensor& logits) const {
  const auto loss = [&](const Tensor& labels) {
    return weighted_sum(
        sequence_loss(logits, labels, LabelProblem::single_label, {.reduction = Reduction::none}), labels,
        class_weights_, {});
  };
  SummedLoss one = loss(batch.labels);
  one.tokens = batch.labels.numel();
  if (!batch.other_labels.defined()) return one;
  const SummedLoss other = loss(batch.other_labels);
  return {one.sum * batch.share + other.sum * (1 - batch.share), one.tokens,
          *one.weight * batch.share + *other.weight * (1 - batch.share)};
}

std::optional<Evaluation> ImageClassificationTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation ImageClassificationTask::evaluate(const Images& images) const {
  const NoGradients off;
  Communicator& world = processes_of(options_);
  BatchPlan plan = plan_of(images, {.batch_tokens = recipe_.train.batch_tokens, .shuffle = false});
  BackgroundReader<ImageBatch> reader([make = maker_of(*processor_, *model_), &images, &plan, &world,
                                       left = plan.batches_in_epoch(), i = std::int64_t{0}]() mutable {
    for (; left > 0; --left) {
      const BatchPlan::Rows rows = plan.next();
      if (i++ % world.size() != world.rank()) continue;
      --left;
      return make(images, rows);
    }
    return ImageBatch{};
  });
  const std::vector<std::string>& names = model_->labels();
  double sum = 0;
  std::vector<std::size_t> predicted, right;
  std::vector<Prediction> predictions;
  for (ImageBatch batch = reader.next(); batch.labels.defined(); batch = reader.next()) {
    Context context;
    const Tensor hidden = model_->encode_for_head(batch.inputs, context);
    const Tensor logits = model_->predict(hidden, {}, context).to(DType::f32);
    sum +=
        sequence_loss(logits, batch.labels, LabelProblem::single_label, {.reduction = Reduction::sum}).item();
    const std::vector<float> losses =
        sequence_loss(logits, batch.labels, LabelProblem::single_label, {.reduction = Reduction::none})
            .to_vector<float>();
    const Tensor probabilities = softmax(logits, 1);
    for (std::int64_t b = 0; b < logits.size(0); ++b) {
      const float* row = logits.data<float>() + b * logits.size(1);
      predicted.push_back(static_cast<std::size_t>(std::max_element(row, row + logits.size(1)) - row));
      right.push_back(static_cast<std::size_t>(batch.labels.data<std::int64_t>()[b]));
      const float* shares = probabilities.data<float>() + b * logits.size(1);
      const std::int64_t number = batch.rows[static_cast<std::size_t>(b)];
      predictions.push_back({.number = number,
                             .text = images[number].text,
                             .right = names[right.back()],
                             .predicted = names[predicted.back()],
                             .probabilities = {shares, shares + logits.size(1)},
                             .loss = losses[static_cast<std::size_t>(b)]});
    }
  }
  predicted = gather_values(world, predicted), right = gather_values(world, right);
  const double loss = world.sum({sum}).front() / static_cast<double>(images.size());
  return {.loss = loss,
          .metrics = label_metrics(predicted, right, names.size()),
          .predictions = gather_predictions(world, std::move(predictions))};
}

void ImageClassificationTask::save(const std::filesystem::path& directory, DType dtype) const {
  write_file(directory / "preprocessor_config.json", preprocessor_->text() + "\n");
  model_->save(directory, dtype);
}

std::string ImageClassificationTask::fingerprint() const {
  Fingerprint hash;
  for (std::int64_t i = 0; i < train_.size(); ++i) {
    const LabeledText image = train_[i];
    hash.add(std::filesystem::path(image.text).filename().string());
    hash.add(image.labels.front());
  }
  return hash.text();
}

}  // namespace heed
