// What a training run is resumed from: the state, the weights, the optimizer's numbers and the log.
#include "heed/train/checkpoint.h"

#include "heed/files/file.h"
#include "reader.h"
#include "train/run/run_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"training.json", "log.jsonl", "model.safetensors", "optimizer.safetensors", "complete"},
                   heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::load_training_state(folder.path()); });
  heed::fuzz::check(folder, [] {
    if (heed::is_complete(folder.path())) heed::verify_directory(folder.path());
  });
  heed::fuzz::check(folder, [] {
    const heed::RunLog log(folder.path() / "log.jsonl", 100);
    log.svg("loss");
  });
  heed::fuzz::check(folder, [] {
    const std::vector<heed::Parameter> parameters{{"a", heed::Tensor::zeros({2, 2})},
                                                  {"b", heed::Tensor::zeros({3}), false}};
    heed::AdamW optimizer(parameters, {});
    heed::load_checkpoint_weights(folder.path(), parameters);
    heed::load_checkpoint_optimizer(folder.path(), optimizer);
  });
  return 0;
}
