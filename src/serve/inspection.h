// What a request asks of the inside of a model: its member `heed`.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heed/inspect/record.h"
#include "inspect/taps.h"
#include "serve/model_server.h"

namespace heed::serve {

/// The last layer of the stacks that kinds of attention are in.
std::int64_t last_layer(const ServedModel& model, const std::vector<AttentionKind>& kinds);

/// The member `heed` of a request.
struct InspectionFields {
  InspectionFields() = default;
  explicit InspectionFields(const ServedModel& served) : model(&served) {}
  void walk(Fields& fields);

  const ServedModel* model = nullptr;  ///< null for a description
  bool is_given = false, has_attention = false;
  std::vector<std::string> taps;
  std::vector<std::int64_t> layers, heads;                    ///< of the attention
  std::vector<std::pair<const TensorMap*, double>> steering;  ///< vectors by taps, and their strengths
  const Json* replace = nullptr;
};

// Of an answer with values: its member `heed`, or a file with all of it.
inline constexpr const char *kValuesShape =
                                R"({"*": {"shape": ["integer"], "dtype": "=F32", "data": ["number|null"]}})",
                            *kSafetensorsType = "application/vnd.safetensors";

/// Steering vectors and replaced values of one computation, and the values that its answer shows.
class Inspection {
 public:
  /// Null for a request without a member `heed`. Throws ApiError for one that is wrong.
  static std::shared_ptr<Inspection> of(const RequestContext& context, const InspectionFields& given);

  /// Whether the answer has values: of one text alone, and not as events.
  bool shows_values() const { return shows_; }
  /// Listeners of the passes.
  Taps& taps() { return taps_.taps(); }
  /// Throws ApiError for more tokens than those whose values may be computed.
  void require_room(std::int64_t tokens) const;
  /// After the last pass. Throws ApiError for a tap that the model does not have.
  void require_fired() const;
  /// Answers with a JSON object, and the values: as its member `heed`, or, for who accepts it, as a
  /// safetensors file with the object in its metadata. Throws ApiError as require_fired(), and
  /// for too many numbers.
  void answer(Call& call, std::string object) const;

 private:
  explicit Inspection(bool file) : file_(file) {}
  void replace(const Json& given);
  void show(const ServedModel& model, const InspectionFields& given);
  void require_numbers(std::int64_t numbers) const;

  const bool file_;  // safetensors
  bool shows_ = false, changes_ = false;
  inspect::GeneratedTaps taps_;
};

/// Computes the one text of a job by itself, with the taps of an inspection. Throws ApiError for several.
void add_inspected(const RequestContext& context, const std::shared_ptr<EncoderJob>& job,
                   const std::shared_ptr<Inspection>& inspection);

/// Lets requests steer by the vectors of a file, as NAME, in those models whose layers and width fit. Throws
/// Error if none does.
void offer_steering(const std::vector<ServedModel*>& models, const std::string& name,
                    const std::filesystem::path& file);

}  // namespace heed::serve
