// The defaults of transformers' image processors, and the keys of preprocessor_config.json.
#include "image/processor_config.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "io/processor_config.h"

namespace heed::image {
namespace {

constexpr std::array<double, 3> kHalf{0.5, 0.5, 0.5};
constexpr std::array<double, 3> kImageNetMean{0.485, 0.456, 0.406}, kImageNetStd{0.229, 0.224, 0.225};
constexpr std::array<double, 3> kClipMean{0.48145466, 0.4578275, 0.40821073};
constexpr std::array<double, 3> kClipStd{0.26862954, 0.26130258, 0.27577711};

/// The defaults of one of transformers' classes.
struct ProcessorClass {
  std::string_view name;
  std::vector<std::string_view> model_types;  // of models whose files name no class
  ResizeFilter filter;
  std::array<double, 3> mean, std;
  SizeRule size;
  std::int64_t crop = 0;  // height and width
  bool do_center_crop = false;
  bool default_to_square = true;  // what a size of one number means
  ProcessorKind kind = ProcessorKind::plain;
};

const std::vector<ProcessorClass>& processor_classes() {
  using enum ResizeFilter;
  constexpr SizeRule kSquare224{.height = 224, .width = 224}, kShortest224{.shortest_edge = 224};
  static const std::vector<ProcessorClass> classes{
      {"BeitImageProcessor", {"beit"}, bicubic, kHalf, kHalf, kSquare224, 224},
      {"BitImageProcessor",
       {"dinov2", "dinov2_with_registers"},
       bicubic,
       kClipMean,
       kClipStd,
       kShortest224,
       224,
       true,
       false},
      {"BlipImageProcessor", {"blip", "blip-2"}, bicubic, kClipMean, kClipStd, {.height = 384, .width = 384}},
      {"ChineseCLIPImageProcessor",
       {"chinese_clip"},
       bicubic,
       kClipMean,
       kClipStd,
       kShortest224,
       224,
       true,
       false},
      {"CLIPImageProcessor", {"clip"}, bicubic, kClipMean, kClipStd, kShortest224, 224, true, false},
      {"ConvNextImageProcessor",
       {"convnext", "convnextv2"},
       bicubic,
       kHalf,
       kHalf,
       {.shortest_edge = 384},
       0,
       false,
       false,
       ProcessorKind::crop_fraction},
      {"DeiTImageProcessor", {"deit"}, bicubic, kHalf, kHalf, {.height = 256, .width = 256}, 224, true},
      {"DINOv3ViTImageProcessor",
       {"dinov3_vit"},
       bilinear,
       kImageNetMean,
       kImageNetStd,
       kSquare224,
       0,
       false,
       true,
       ProcessorKind::floats},
      {"SiglipImageProcessor", {"siglip"}, bicubic, kHalf, kHalf, kSquare224, 0, false, false},
      {"Siglip2ImageProcessor",
       {"siglip2"},
       bilinear,
       kHalf,
       kHalf,
       {},
       0,
       false,
       true,
       ProcessorKind::patches},
      {"ViTImageProcessor", {"vit"}, bilinear, kHalf, kHalf, kSquare224},
  };
  return classes;
}

/// The class that a configuration names, with its suffix.
std::string class_name(const Config& json, const ModelFiles& model) {
  std::optional<std::string> name = json.optional_string("image_processor_type");
  const std::optional<std::string> older = json.optional_string("feature_extractor_type");
  if (!name && older) {
    constexpr std::string_view kOlder = "FeatureExtractor";
    name = older;
    if (name->ends_with(kOlder)) name->replace(name->size() - kOlder.size(), kOlder.size(), "ImageProcessor");
  }
  if (name) return *name;
  if (const ProcessorClass* known = find_processor_class(processor_classes(), name, model))
    return std::string(known->name);
  json.fail("image_processor_type", "the name of a class, such as \"ViTImageProcessor\"");
}

const ProcessorClass& class_of(const Config& json, std::string_view name) {
  for (const ProcessorClass& known : processor_classes()) {
    if (known.name == name) return known;
  }
  throw Error(json.where() + ": image_processor_type: expected one of " +
              joined(processor_classes(), ", ", &ProcessorClass::name) + ", got " + std::string(name));
}

constexpr std::int64_t kMostEdge = 65535;

/// An edge of a size object; 0 if it is absent.
std::int64_t edge(const Config& size, std::string_view name) {
  const auto value = size.optional_integer(name);
  if (value && (*value < 1 || *value > kMostEdge)) size.fail(name, "an integer from 1 to 65535");
  return value.value_or(0);
}

/// A size: a number, [height, width], or an object.
std::optional<SizeRule> read_size(const Config& json, std::string_view name, bool number_is_square) {
  if (!json.has(name)) return std::nullopt;
  SizeRule size;
  if (json.is_number(name)) {
    const std::int64_t number = edge(json, name);
    if (number_is_square) return SizeRule{.height = number, .width = number};
    return SizeRule{.shortest_edge = number};
  }
  const Config object = json.sub(name);
  const bool is_array = object.has("0");
  size.height = edge(object, is_array ? "0" : "height");
  size.width = edge(object, is_array ? "1" : "width");
  if (!is_array) {
    size.shortest_edge = edge(object, "shortest_edge");
    size.longest_edge = edge(object, "longest_edge");
    size.max_height = edge(object, "max_height");
    size.max_width = edge(object, "max_width");
  }
  const bool exact = size.height != 0 && size.width != 0,
             bounded = size.max_height != 0 && size.max_width != 0;
  const bool none = size.height == 0 && size.width == 0 && size.max_height == 0 && size.max_width == 0;
  const bool by_edge = size.shortest_edge != 0;
  if (exact + bounded + by_edge != 1 || (by_edge && !none) ||
      (exact && size.max_height + size.max_width != 0) || (bounded && size.height + size.width != 0) ||
      (size.longest_edge != 0 && !by_edge))
    json.fail(name, "height and width, shortest_edge (and longest_edge), or max_height and max_width");
  return size;
}

/// A size that must be exact, as that of a crop.
std::optional<Extent> read_extent(const Config& json, std::string_view name) {
  const auto size = read_size(json, name, true);
  if (!size) return std::nullopt;
  if (size->height == 0) json.fail(name, "height and width");
  return Extent{size->height, size->width};
}

std::array<double, 3> read_channels(const Config& json, std::string_view name,
                                    const std::array<double, 3>& standard, bool is_divisor) {
  std::array<double, 3> values = standard;
  if (json.is_number(name)) {
    values.fill(json.required_number(name));
  } else if (json.has(name)) {
    const std::vector<double> given = json.numbers(name);
    if (given.size() != values.size()) json.fail(name, "a number, or one for each of 3 channels");
    std::copy(given.begin(), given.end(), values.begin());
  }
  for (const double value : values) {
    const auto single = static_cast<float>(value);
    if (!std::isfinite(single) || (is_divisor && single <= 0))
      json.fail(name, is_divisor ? "positive numbers" : "finite numbers");
  }
  return values;
}

void read_resizing(const Config& json, const ProcessorClass& defaults, ProcessorSettings& settings) {
  settings.do_resize = json.boolean("do_resize", true);
  const bool square = json.boolean("default_to_square", defaults.default_to_square);
  settings.size = read_size(json, "size", square).value_or(defaults.size);
  const auto filter = json.integer("resample", static_cast<std::int64_t>(defaults.filter));
  if (filter < 0 || filter > 5)
    json.fail("resample", "an integer from 0 to 5, as Pillow numbers its filters");
  settings.filter = static_cast<ResizeFilter>(filter);
  const bool torchvision = settings.arithmetic == ResizeArithmetic::torchvision;
  if (torchvision && (settings.filter == ResizeFilter::box || settings.filter == ResizeFilter::hamming))
    json.fail("resample", "a filter that torchvision has, 0 to 3");
  if (settings.kind == ProcessorKind::floats && settings.filter != ResizeFilter::bilinear &&
      settings.filter != ResizeFilter::bicubic)
    json.fail("resample", "2 or 3 (bilinear or bicubic)");
  if (settings.kind == ProcessorKind::crop_fraction) {
    settings.crop_fraction = json.number("crop_pct", settings.crop_fraction);
    if (!(settings.crop_fraction >= 0.01 && settings.crop_fraction <= 1))
      json.fail("crop_pct", "a number from 0.01 to 1");
    if (settings.do_resize && (settings.size.shortest_edge == 0 || settings.size.longest_edge != 0))
      json.fail("size", "shortest_edge");
  }
  if (settings.kind == ProcessorKind::patches) {
    settings.patch_size = integer_within(json, "patch_size", 1, 1024, settings.patch_size);
    settings.most_patches = integer_within(json, "max_num_patches", 1, 65536, settings.most_patches);
  }
}

void read_values(const Config& json, const ProcessorClass& defaults, ProcessorSettings& settings) {
  settings.do_rescale = json.boolean("do_rescale", true);
  settings.rescale_factor = json.number("rescale_factor", settings.rescale_factor);
  const double factor = settings.rescale_factor;
  if (!std::isnormal(static_cast<float>(factor)) || !std::isnormal(static_cast<float>(1 / factor)))
    json.fail("rescale_factor", "a number other than 0");
  settings.do_normalize = json.boolean("do_normalize", true);
  settings.mean = read_channels(json, "image_mean", defaults.mean, false);
  settings.std = read_channels(json, "image_std", defaults.std, true);
  if (settings.kind == ProcessorKind::floats && !settings.do_rescale)
    json.fail("do_rescale", "true, as this class normalizes numbers from 0 to 1");
}

/// Refuses what heed does not do, and keys that it does not know.
void account_for_others(const Config& json, const ProcessorSettings& settings) {
  for (const std::string_view key : {"do_flip_channel_order", "do_thumbnail", "do_align_long_axis", "offset",
                                     "size_divisor", "use_square_size", "auto_map"}) {
    json.ignore({key});
    if (!json.is_off(key)) json.fail(key, "none, as heed does not do this to images");
  }
  if (json.string("data_format", "channels_first") != "channels_first")
    json.fail("data_format", "\"channels_first\"");
  // They concern labels, places of computation and other software; images are always red, green and blue
  // here.
  json.ignore({"processor_class", "do_convert_rgb", "input_data_format", "device", "return_tensors",
               "disable_grouping", "image_seq_length", "model_input_names", "_valid_processor_keys"});
  if (settings.type == "BeitImageProcessor") json.ignore({"do_reduce_labels", "reduce_labels"});
  for (const std::string& key : json.unused())
    throw Error(json.where() + ": " + key + ": expected only settings that heed knows, got one more");
}

}  // namespace

ProcessorSettings read_processor_settings(const Config& json, std::string type,
                                          std::optional<ResizeArithmetic> arithmetic) {
  ProcessorSettings settings;
  settings.where = json.where();
  settings.type = std::move(type);
  const bool fast = settings.type.ends_with("Fast"), slow = settings.type.ends_with("Pil");
  if (fast || slow) settings.type = settings.type.substr(0, settings.type.size() - (fast ? 4 : 3));
  const ProcessorClass& defaults = class_of(json, settings.type);
  settings.kind = defaults.kind;
  settings.arithmetic = arithmetic.value_or(fast ? ResizeArithmetic::torchvision : ResizeArithmetic::pillow);
  if (settings.kind == ProcessorKind::floats) settings.arithmetic = ResizeArithmetic::torchvision;

  read_resizing(json, defaults, settings);
  settings.do_center_crop = json.boolean("do_center_crop", defaults.do_center_crop);
  settings.crop_size = read_extent(json, "crop_size").value_or(Extent{defaults.crop, defaults.crop});
  if (settings.do_center_crop && settings.crop_size.height == 0) json.fail("crop_size", "height and width");
  read_values(json, defaults, settings);
  settings.do_pad = json.boolean("do_pad", false);
  settings.pad_size = read_extent(json, "pad_size");
  account_for_others(json, settings);
  return settings;
}

ProcessorSettings load_processor_settings(const ModelFiles& model,
                                          std::optional<ResizeArithmetic> arithmetic) {
  const Config json =
      load_processor_config(model, "image_processor", "how images are resized and normalized");
  return read_processor_settings(json, class_name(json, model), arithmetic);
}

}  // namespace heed::image
