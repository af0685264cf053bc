// The explored models and their last runs: requests in, answers as JSON out.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explore/model/explored_model.h"

namespace heed::explore {

/// Threads: models() and chunk() at any time, the others one at a time.
class Explorer {
 public:
  explicit Explorer(std::vector<ExploredModel> models);
  ~Explorer();

  // What a request asks wrongly is an Error of one line; all throw Canceled once `stop` is true.

  /// The models, their kinds and sizes.
  std::string models() const;
  /// Holds a file that a model reads, and returns its number as `file`.
  std::string add_file(std::size_t model, std::string bytes, const std::atomic<bool>& stop);
  /// Runs a text or a file through a model with changed heads: maps, and what the model predicts.
  std::string run(const RunRequest& wanted, const std::atomic<bool>& stop);
  /// The ids of the tokens of a text.
  std::string ids(const RunRequest& wanted, const std::atomic<bool>& stop);
  /// The text of a chunk of numbers of a run; nothing where either does not exist any more.
  std::optional<std::string> chunk(std::int64_t run, std::int64_t chunk) const;
  /// What a logit loses without each head.
  std::string ablation(const AblationRequest& wanted, const std::atomic<bool>& stop);
  /// What each part adds for one token; the steps of one head; what makes it attend to a key; a run beside
  /// one with mistakes.
  std::string flow(const FlowRequest& wanted, const std::atomic<bool>& stop);
  std::string steps(const StepsRequest& wanted, const std::atomic<bool>& stop);
  std::string why(const WhyRequest& wanted, const std::atomic<bool>& stop);
  std::string mistakes(const MistakesRequest& wanted, const std::atomic<bool>& stop);

 private:
  struct HeldRun;
  struct Unchanged;

  /// Of a request. Throws Error for a number that no model has, and for a model whose files have changed.
  const ExploredModel& model_at(std::size_t index) const;
  /// What a view shows of a run: a JSON value of the text with its changes.
  template <class Request, class View>
  std::string view(const Request& wanted, const std::atomic<bool>& stop, View view);
  /// The text of a run, with its labels, of a length whose maps can be shown.
  ExploredText text_of(const RunRequest& run, const std::atomic<bool>& stop) const;
  /// The logits of the rows without changes; of the last such run, if it was of the same text.
  Tensor unchanged_logits(std::size_t model, const ExploredText& text, const std::atomic<bool>& stop);
  void remember(std::size_t model, const ExploredText& text, const Tensor& logits);
  std::int64_t hold(std::shared_ptr<const HeldRun> run);

  std::vector<ExploredModel> models_;
  std::shared_ptr<Files> files_;
  std::unique_ptr<Unchanged> unchanged_;
  mutable std::mutex mutex_;  // of the runs
  std::map<std::int64_t, std::shared_ptr<const HeldRun>> runs_;
  std::int64_t last_run_ = 0;
};

}  // namespace heed::explore
