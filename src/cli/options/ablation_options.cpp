#include "cli/options/ablation_options.h"

#include "cli/input/input.h"
#include "cli/options/option_group.h"
#include "heed/error.h"

namespace heed::cli {

void AblationArguments::add_to(CLI::App& command, const char* remove_help) {
  OptionGroup options(command, "Ablation");
  options.value("--remove", remove, "L.H,L.ff,...", remove_help);
  const auto choose = [this](const std::vector<std::string>& given) {
    replacement = given.front() == "zero"   ? Replacement::zero
                  : given.front() == "mean" ? Replacement::mean
                                            : Replacement::resample;
    return true;
  };
  accept_words(command.add_option("--ablation", choose,
                                  "What stands in the place of an output: zeros, its mean over all positions "
                                  "of the --reference texts, or its values for another of these, drawn with "
                                  "--seed (default: zero)"),
               {"zero", "mean", "resample"})
      ->group("Ablation");
  options.value("--reference", reference, "FILE",
                "File with a text, or the name of a file, in each line (default: the given texts)");
}

void AblationArguments::check() const {
  if (!reference.empty() && replacement.value_or(Replacement::zero) == Replacement::zero)
    throw UsageError("--reference: needs --ablation mean or resample");
}

std::vector<TensorMap> AblationArguments::reference_inputs(
    const Globals& globals, const std::function<TensorMap(const std::string&)>& read) const {
  std::vector<TensorMap> inputs;
  if (reference.empty()) return inputs;
  for (const std::string& line : read_lines(reference, globals.quiet)) {
    if (!line.empty()) inputs.push_back(read(line));
  }
  if (inputs.empty()) throw Error(reference + ": expected at least one text, got none");
  return inputs;
}

}  // namespace heed::cli
