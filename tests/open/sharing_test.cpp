// Several threads of a program, each busy with every public entry in another order, on models that they
// share: loading, tokenizing, all tasks, requests that come and go, analyses, resizing, and training of a
// model of their own beside it. Each result has the bits that one thread alone gets. HEED_SHARING_ROUNDS asks
// for a longer run, whose result docs/architecture.md has.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/generate/generation.h"
#include "heed/heed.h"
#include "heed/image/image.h"
#include "heed/inspect/logit_lens.h"
#include "heed/inspect/stream_attribution.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "heed/text/tokenizer.h"
#include "heed/threads.h"
#include "heed/train/adamw.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using std::int64_t;

const std::string kSharedFixtures = HEED_FIXTURES "/";

template <class Number>
std::string bits(std::span<const Number> numbers) {
  std::string text(numbers.size_bytes(), '\0');
  if (!numbers.empty()) std::memcpy(text.data(), numbers.data(), numbers.size_bytes());
  return text;
}
std::string bits(double number) { return bits(std::span<const double>(&number, 1)); }
std::string bits(const Tensor& tensor) {
  return bits(std::span<const float>(tensor.detach().contiguous().to_vector<float>()));
}

std::string joined(const std::vector<Label>& labels) {
  std::string text;
  for (const Label& label : labels) text += label.name + bits(label.score);
  return text;
}

/// The models that all threads use.
struct Models {
  LoadedModel poet = load("shakespeare"), translator = load("en-fr"), critic = load("reviews"),
              filler = load("reviews-mlm"), viewer = load("cifar10"),
              hearer = load(kSharedFixtures + "speech"), captioner = load(kSharedFixtures + "vit-gpt2"),
              tagger = load(kSharedFixtures + "encoders/bert-tag"),
              reader = load(kSharedFixtures + "encoders/bert-qa"),
              quantized = load(kSharedFixtures + "gguf/llama.gguf");
  Models() { poet.generation().max_new_tokens = translator.generation().max_new_tokens = 12; }
};

const std::string kPrompt = "KING RICHARD", kSentence = "The black cat drinks milk.",
                  kReview = "A moving story, told with great care.";
std::string photo() { return kSharedFixtures + "image/pictures/photo.jpg"; }

std::string sampled(const Models& models) {
  LoadedModel poet = models.poet;
  poet.generation().do_sample = true;
  poet.generation().seed = 7;
  return poet.generate(kPrompt) +
         poet.generate("First Citizen:", {.grammar = Grammar::regex("[a-z ]{4,9}[.]")});
}

/// Requests of three kinds, of which one comes later.
std::string requests(const Models& models) {
  GenerationOptions greedy, beams, drawn;
  greedy.max_new_tokens = beams.max_new_tokens = drawn.max_new_tokens = 8;
  beams.num_beams = 3;
  drawn.do_sample = true;
  Generation generation(models.poet.decoder(), {.cached_bytes = 1 << 20});
  std::vector<std::uint64_t> numbers;
  const auto add = [&](const std::string& prompt, const GenerationOptions& options) {
    numbers.push_back(
        generation.add({.prompt = models.poet.tokenizer().encode(prompt).ids, .options = options}));
  };
  add(kPrompt, greedy);
  add("First Citizen:", beams);
  for (int step = 0; !generation.idle(); ++step) {
    if (step == 2) add("KING HENRY", drawn);
    generation.step();
  }
  std::string text;
  for (const std::uint64_t number : numbers) {
    for (const Hypothesis& found : generation.remove(number))
      text += bits(std::span<const int64_t>(found.ids)) + bits(found.score);
  }
  return text;
}

std::string attention(const Models& models) {
  std::string text;
  for (const auto& layer : models.translator.attention(kSentence).layers) text += bits(layer.weights);
  return text;
}

std::string tapped(const Models& models) {
  Taps taps;
  std::string text;
  taps.listen("encoder.layers.*.self_attn.heads",
              [&](const std::string& name, Tensor& value) { text += name + bits(value); });
  const TensorMap outputs = models.critic.forward(kReview, taps);
  return text + bits(outputs.at("logits"));
}

std::string lens(const Models& models) {
  const NoGradients inference;
  const auto ids = models.poet.tokenizer().encode(kPrompt).ids;
  const TensorMap inputs{{"input_ids", Tensor::from(ids, {1, static_cast<int64_t>(ids.size())})}};
  std::string text;
  for (const LensLayer& layer : logit_lens(models.poet.model(), inputs, 3)) {
    for (const auto& position : layer.positions) {
      for (const auto& token : position) text += std::to_string(token.id) + bits(token.probability);
    }
  }
  const auto parts = attribute_logit(models.poet.model(), inputs, 2, 5).parts;
  for (const LogitPart& part : parts) text += bits(part.logit);
  return text;
}

/// Loads models of three kinds of files, and uses each.
std::string loaded(const Models&) {
  LoadedModel gguf = load(kSharedFixtures + "gguf/llama.gguf");
  gguf.generation().max_new_tokens = 6;
  return load("en-fr").translate(kSentence) + gguf.generate("the") +
         joined(load("reviews").classify(kReview));
}

/// Some steps of training a model of one's own, with dropout, and saving it.
std::string trained(const Models&) {
  Generator generator(3);
  const Config config = Config::load(kSharedFixtures + "marian/config.json").with(R"({"dropout": 0.1})");
  const auto model = make_as<EncoderDecoderModel>(config, generator);
  AdamW optimizer(model->parameters(), {});
  std::string text;
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < int64_t{8} * 12; ++i) ids.push_back(1 + (i * 7 + step) % 20);
    const Tensor source = Tensor::from(ids, {8, 12});
    Context context;
    context.training = true;
    context.generator = &generator;
    const Tensor loss =
        model->loss({source, Tensor::full(source.shape(), 1, DType::i64)}, source, {}, context);
    loss.backward();
    optimizer.step(1e-3, clip_scale(gradient_norm(model->parameters()), 1.0));
    optimizer.zero_grad();
    text += bits(loss.item());
  }
  const TemporaryFolder folder;
  model->save(folder.path());
  return text + read_file(folder.path() / "model.safetensors");
}

/// What the reader of a training run on images does beside the step.
std::string resized(const Models&) {
  std::string text;
  const Tensor image = load_image(photo());
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::bicubic})
    text +=
        bits(std::span<const std::uint8_t>(resize_image(image, 96, 224, filter).to_vector<std::uint8_t>()));
  return text;
}

std::string computed(const Models&) {
  const NoGradients inference;
  const RandomStream random{5, 1};
  std::vector<float> numbers(3 * 40000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = random.normal(i);
  const Tensor wide = Tensor::from(numbers, {3, 40000}), square = Tensor::from(numbers, {300, 400});
  return bits(softmax(wide, -1)) + bits(matmul(square, transpose(square, 0, 1)));
}

struct Entry {
  const char* name;
  std::function<std::string(const Models&)> result;
};

std::vector<Entry> entries() {
  return {
      {"generate", [](const Models& m) { return m.poet.generate(kPrompt); }},
      {"train", trained},
      {"sample", sampled},
      {"load", loaded},
      {"requests", requests},
      {"resize", resized},
      {"translate", [](const Models& m) { return m.translator.translate(kSentence); }},
      {"embed",
       [](const Models& m) {
         return bits(m.critic.embed({kReview, kSentence, ""}));
       }},
      {"attention", attention},
      {"classify", [](const Models& m) { return joined(m.critic.classify(kReview)); }},
      {"compute", computed},
      {"fill", [](const Models& m) { return bits(m.filler.fill("A [MASK] film.").at(0).at(0).probability); }},
      {"taps", tapped},
      {"classify images", [](const Models& m) { return joined(m.viewer.classify_image(photo())); }},
      {"transcribe",
       [](const Models& m) { return m.hearer.transcribe(kSharedFixtures + "speech/tones.flac").text; }},
      {"lens", lens},
      {"caption", [](const Models& m) { return m.captioner.caption(photo()); }},
      {"tag", [](const Models& m) { return bits(m.tagger.tag(kSentence).at(0).score); }},
      {"answer", [](const Models& m) { return bits(m.reader.answer("who?", kSentence).score); }},
      {"tokenize",
       [](const Models& m) { return m.filler.tokenizer().decode(m.filler.tokenizer().encode(kReview).ids); }},
      {"blocks", [](const Models& m) { return m.quantized.generate("the"); }},
  };
}

/// Runs all entries `rounds` times in each of so many threads, and counts the results that are not `alone`.
std::map<std::string, int> differences(std::size_t callers, int rounds,
                                       const std::vector<std::string>& alone) {
  const Models models;  // whose weights are not packed yet
  const std::vector<Entry> all = entries();
  std::vector<std::atomic<int>> different(all.size());
  std::vector<std::thread> threads;
  for (std::size_t caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&, caller] {
      std::minstd_rand random(static_cast<unsigned>(caller + 1));
      std::vector<std::size_t> order(all.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (int round = 0; round < rounds; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
          if (all[i].result(models) != alone[i]) ++different[i];
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::map<std::string, int> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (different[i] > 0) found[all[i].name] = different[i];
  }
  return found;
}

TEST(Sharing, EveryPublicEntryFromSeveralThreads) {
  const char* const asked = std::getenv("HEED_SHARING_ROUNDS");
  const int rounds = asked == nullptr ? 1 : std::max(1, std::atoi(asked)), before = threads();
  set_threads(8);
  std::vector<std::string> alone;
  {
    const Models models;
    for (const Entry& entry : entries()) {
      alone.push_back(entry.result(models));
      EXPECT_FALSE(alone.back().empty()) << entry.name;
    }
  }
  for (const std::size_t callers : {2, 4})
    EXPECT_EQ(differences(callers, rounds, alone), (std::map<std::string, int>{})) << callers << " threads";
  set_threads(before);
}

}  // namespace
}  // namespace heed
