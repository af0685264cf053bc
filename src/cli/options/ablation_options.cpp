#include "cli/options/ablation_options.h"

#include <algorithm>

#include "cli/input/input.h"
#include "cli/options/option_values.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

// "5.1,6.0,3.ff"
std::vector<Component> removed_components(const std::string& list, const AttentionKind& kind) {
  std::vector<Component> components;
  for (std::size_t begin = 0, end = 0; begin <= list.size() && !list.empty(); begin = end + 1) {
    end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    const std::optional<LayerPart> part = parse_layer_part(name);
    if (!part)
      throw UsageError(
          "--remove: expected heads LAYER.HEAD and feed-forward networks LAYER.ff, as 5.1,6.0, "
          "got " +
          name);
    components.push_back({.stack = kind.stack,
                          .part = part->head < 0 ? "feed_forward" : kind.part,
                          .layer = part->layer,
                          .head = part->head});
  }
  return components;
}

}  // namespace

const char* AblationArguments::replacement() const {
  return ablation == "mean" ? "its mean" : ablation == "resample" ? "that for another text" : "zeros";
}

void add_ablation_options(CLI::App& command, AblationArguments& arguments, const std::string& implies) {
  accept_words(command.add_option("--ablation", arguments.ablation,
                                  "What stands in the place of an output" + implies +
                                      ": zeros, its mean over all positions of the --reference texts, or "
                                      "its values for another of these, drawn with --seed (default: zero)"),
               {"zero", "mean", "resample"})
      ->group("Ablation");
  command
      .add_option("--reference", arguments.reference,
                  "File with a text, or the name of a file, in each line (default: the measured texts)")
      ->type_name("FILE")
      ->group("Ablation");
  command
      .add_option("--remove", arguments.remove,
                  "Heads and feed-forward networks that are ablated together, beside each other one")
      ->type_name("L.H,L.ff,...")
      ->group("Ablation");
}

void check_ablation(const AblationArguments& arguments) {
  if (!arguments.reference.empty() && (!arguments.ablation || arguments.ablation == "zero"))
    throw UsageError("--reference: needs --ablation mean or resample");
}

AblationOptions ablation_options(const AblationArguments& arguments, const AttentionKind& kind,
                                 const Globals& globals) {
  AblationOptions options;
  if (arguments.ablation == "mean") options.replacement = Replacement::mean;
  if (arguments.ablation == "resample") options.replacement = Replacement::resample;
  options.seed = globals.seed.value_or(0);
  options.removed = removed_components(arguments.remove, kind);
  return options;
}

std::vector<TensorMap> reference_inputs(const AblationArguments& arguments, const Globals& globals,
                                        const std::function<TensorMap(const std::string&)>& read) {
  std::vector<TensorMap> inputs;
  if (arguments.reference.empty()) return inputs;
  for (const std::string& line : read_lines(arguments.reference, globals.quiet)) {
    if (!line.empty()) inputs.push_back(read(line));
  }
  if (inputs.empty()) throw Error(arguments.reference + ": expected at least one text, got none");
  return inputs;
}

}  // namespace heed::cli
