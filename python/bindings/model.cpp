// An opened model: heed.Model stands on this class.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "heed/autograd.h"
#include "heed/chat/model_chat.h"
#include "heed/files/model_files.h"
#include "heed/generate/perplexity.h"
#include "heed/grammar/grammar.h"
#include "heed/models/kind.h"
#include "heed/models/model.h"
#include "heed/open/loaded_model.h"
#include "heed/open/subject.h"
#include "heed/ops/shape.h"
#include "heed/tasks/embed.h"
#include "heed/tasks/similarity.h"

namespace heed::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Texts = std::vector<std::string>;
using Ids = std::vector<std::int64_t>;
// Patterns of taps, and what is called with their values.
using Hooks = std::vector<std::pair<std::string, nb::object>>;
using OnWarning = std::optional<std::function<void(std::size_t, const std::string&)>>;

DType dtype_named(const std::string& name) {
  if (name == "f32" || name == "float32") return DType::f32;
  if (name == "bf16" || name == "bfloat16") return DType::bf16;
  throw nb::value_error(("dtype: expected float32 or bfloat16, got " + name).c_str());
}

using Layers = std::pair<std::int64_t, std::optional<std::int64_t>>;

LoadedModel open(const std::string& name, const std::string& dtype, std::optional<bool> int8,
                 const std::vector<std::pair<std::string, double>>& adapters, std::optional<bool> head,
                 const std::vector<std::pair<std::string, double>>& steer, const Layers& steer_layers) {
  LoadOptions options{.dtype = dtype_named(dtype), .head = head};
  if (int8) options.activations = *int8 ? Activations::int8 : Activations::f32;
  for (const auto& [adapter, weight] : adapters) options.adapters.push_back({adapter, weight});
  for (const auto& [file, strength] : steer)
    options.steering.push_back({file, strength, {steer_layers.first, steer_layers.second}});
  return unlocked([&](const std::atomic<bool>&) { return load(name, options); });
}

TaskOptions task_options(const std::optional<std::int64_t>& batch_tokens, const OnWarning& on_warning,
                         const std::atomic<bool>& stop) {
  TaskOptions options;
  if (batch_tokens) options.batch_tokens = *batch_tokens;
  if (on_warning)
    options.on_warning = [&on_warning](std::size_t index, const std::string& message) {
      const nb::gil_scoped_acquire lock;
      (*on_warning)(index, message);
    };
  options.stop = &stop;
  return options;
}

// A list for each of `all`, of what `object_of` makes of its elements.
template <class Results, class Make>
nb::list lists_of(const Results& all, const Make& object_of) {
  nb::list lists;
  for (const auto& one : all) {
    nb::list list;
    for (const auto& element : one) list.append(object_of(element));
    lists.append(list);
  }
  return lists;
}

// --- vectors

EmbeddingRecipe recipe_with(const LoadedModel& model, const std::optional<std::string>& prompt_name,
                            const std::optional<std::string>& prompt, bool normalize) {
  EmbeddingRecipe recipe = model.recipe();
  if (prompt_name) {
    const auto found = recipe.prompts.find(*prompt_name);
    if (found == recipe.prompts.end()) {
      std::string known;
      for (const auto& [name, text] : recipe.prompts) known += (known.empty() ? "" : ", ") + name;
      throw Error("prompt_name: expected " +
                  (known.empty() ? "none, as the model has no prompts" : "one of " + known) + ", got " +
                  *prompt_name);
    }
    recipe.prompt = found->second;
  }
  if (prompt) recipe.prompt = *prompt;
  if (normalize && (recipe.steps.empty() || !recipe.steps.back().normalize))
    recipe.steps.emplace_back().normalize = true;
  return recipe;
}

nb::any encode(const LoadedModel& model, const Texts& texts, const std::optional<std::string>& prompt_name,
               const std::optional<std::string>& prompt, bool normalize,
               std::optional<std::int64_t> batch_tokens, const OnWarning& on_warning) {
  const EmbeddingRecipe recipe = recipe_with(model, prompt_name, prompt, normalize);
  return array_of(unlocked([&](const std::atomic<bool>& stop) {
                    model.require_unchanged_files();
                    const NoGradients guard;
                    return embed(model.model(), model.tokenizer(), texts, recipe,
                                 task_options(batch_tokens, on_warning, stop));
                  }),
                  true);
}

nb::any encode_images(const LoadedModel& model, const Texts& files) {
  return array_of(
      unlocked([&](const std::atomic<bool>& stop) { return model.embed_images(files, {.stop = &stop}); }),
      true);
}

nb::list token_embeddings(const LoadedModel& model, const Texts& texts) {
  const std::vector<TokenEmbeddings> all = unlocked([&](const std::atomic<bool>& stop) {
    const NoGradients guard;
    return embed_tokens(model.model(), model.tokenizer(), texts, model.recipe(), {.stop = &stop});
  });
  nb::list list;
  for (const TokenEmbeddings& one : all)
    list.append(nb::make_tuple(nb::cast(one.tokens), array_of(one.vectors)));
  return list;
}

// Vectors [N, D]; one alone is a row.
Tensor rows_of(nb::handle object, const std::string& name) {
  const Tensor vectors = tensor_of(object, name).to(DType::f32);
  return vectors.rank() == 1 ? reshape(vectors, {1, vectors.size(0)}) : vectors;
}

// --- hooks

// A listener of Python, which reads a value or replaces it: by what it returns, or by what it writes into the
// array that it is given, a copy.
Listener hook_of(const nb::object& hook) {
  return [&hook](const std::string& name, Tensor& value) {
    const nb::gil_scoped_acquire lock;
    const Tensor copy = value.clone();
    const nb::object array = array_of(copy, true);
    const nb::object answer = hook(name, array);
    if (answer.is_none()) {
      value = copy.dtype() == value.dtype() ? copy : copy.to(value.dtype());
      return;
    }
    Tensor given = tensor_of(answer, name);
    if (given.shape() != value.shape())
      throw nb::value_error(
          (name + ": expected an array " + value.shape().str() + " from the hook, got " + given.shape().str())
              .c_str());
    value = given.to(value.dtype());
  };
}

void listen(Taps& taps, const Hooks& hooks) {
  for (const auto& [name, hook] : hooks) taps.listen(name, hook_of(hook));
}

// --- generation

// What a callback of Python is to the library: it may be called without the lock.
std::function<bool(std::size_t, std::size_t, const std::string&)> listener(const nb::object& on_text) {
  if (on_text.is_none()) return {};
  return [&on_text](std::size_t index, std::size_t sequence, const std::string& text) {
    const nb::gil_scoped_acquire lock;
    const nb::object answer = on_text(index, sequence, text);
    return answer.is_none() || nb::cast<bool>(answer);
  };
}

nb::list hypotheses(const std::vector<std::vector<Completion>>& all) {
  return lists_of(all,
                  [](const Completion& one) { return nb::make_tuple(one.text, nb::cast(one.hypothesis)); });
}

std::optional<Grammar> grammar_of(const std::optional<std::string>& json_schema,
                                  const std::optional<std::string>& regex) {
  if (json_schema && regex) throw Error("regex: expected none beside json_schema");
  if (!json_schema && !regex) return std::nullopt;
  return json_schema ? Grammar::json_schema(*json_schema, "json_schema") : Grammar::regex(*regex, "regex");
}

nb::list generate(const LoadedModel& model, const Texts& prompts, const GenerationOptions& options,
                  const Texts& stop_strings, const std::optional<std::string>& json_schema,
                  const std::optional<std::string>& regex, const Hooks& hooks, const nb::object& on_text,
                  const OnWarning& on_warning) {
  const auto on_part = listener(on_text);
  Taps taps;
  listen(taps, hooks);
  return hypotheses(unlocked([&](const std::atomic<bool>& stop) {
    CompleteOptions complete{.task = task_options({}, on_warning, stop), .generation = options};
    complete.stop_strings = stop_strings;
    complete.grammar = grammar_of(json_schema, regex);
    complete.on_text = on_part;
    if (!hooks.empty()) complete.taps = &taps;
    return model.generate(prompts, complete);
  }));
}

nb::list generate_ids(const LoadedModel& model, const std::vector<Ids>& prompts,
                      const GenerationOptions& options, const Texts& stop_strings,
                      const std::optional<std::string>& json_schema, const std::optional<std::string>& regex,
                      const Hooks& hooks, const nb::object& on_text) {
  const auto on_part = listener(on_text);
  Taps taps;
  listen(taps, hooks);
  return hypotheses(unlocked([&](const std::atomic<bool>& stop) {
    model.require_unchanged_files();
    CompleteOptions complete{.task = task_options({}, {}, stop), .generation = options};
    complete.stop_strings = stop_strings;
    complete.grammar = grammar_of(json_schema, regex);
    complete.on_text = on_part;
    if (!hooks.empty()) complete.taps = &taps;
    const NoGradients guard;
    return heed::complete(model.decoder(), model.tokenizer(), std::span<const Ids>(prompts), complete);
  }));
}

nb::tuple chat_prompt(const LoadedModel& model, const std::string& conversation) {
  const EncodedChat chat = model.chat_templates().prompt(conversation);
  return nb::make_tuple(chat.text, nb::cast(chat.encoding.ids));
}

nb::list translate(const LoadedModel& model, const Texts& texts, const GenerationOptions& options,
                   const std::string& prefix, bool alignments, const OnWarning& on_warning) {
  const std::vector<Translation> all = unlocked([&](const std::atomic<bool>& stop) {
    TranslateOptions translate{.task = task_options({}, on_warning, stop), .generation = options};
    translate.prefix = prefix;
    if (alignments) translate.capture = {"decoder.layers.*.cross_attn.weights"};
    return model.translate(texts, translate);
  });
  nb::list list;
  for (const Translation& one : all) {
    nb::list candidates;
    for (const TranslationCandidate& candidate : one.candidates) {
      nb::dict found;
      found["text"] = candidate.text;
      found["score"] = candidate.hypothesis.beam_score;
      found["tokens"] = nb::cast(candidate.tokens);
      found["source_tokens"] = nb::cast(one.source_tokens);
      if (alignments) found["attentions"] = arrays_of(candidate.hypothesis.captured);
      candidates.append(found);
    }
    list.append(candidates);
  }
  return list;
}

nb::list likelihoods(const LoadedModel& model, const std::vector<std::pair<Ids, Ids>>& requests) {
  const auto all = unlocked([&](const std::atomic<bool>& stop) {
    std::vector<std::vector<TokenLikelihood>> all;
    for (const auto& [context, continuation] : requests)
      all.push_back(token_likelihoods(model.decoder(), context, continuation, &stop));
    return all;
  });
  return lists_of(
      all, [](const TokenLikelihood& token) { return nb::make_tuple(token.log_probability, token.greedy); });
}

// --- tasks

nb::list labels(const std::vector<std::vector<Label>>& all) {
  return lists_of(all, [](const Label& label) { return nb::make_tuple(label.name, label.score); });
}

nb::list classify(const LoadedModel& model,
                  const std::vector<std::pair<std::string, std::optional<std::string>>>& texts,
                  std::int64_t top_k, const OnWarning& on_warning) {
  std::vector<TextPair> pairs;
  for (const auto& [first, second] : texts) pairs.push_back({first, second});
  return labels(unlocked([&](const std::atomic<bool>& stop) {
    return model.classify(pairs, top_k, task_options({}, on_warning, stop));
  }));
}

nb::list classify_files(const LoadedModel& model, const Texts& files, const std::optional<Texts>& given,
                        std::int64_t top_k) {
  return labels(unlocked([&](const std::atomic<bool>& stop) {
    const TaskOptions options{.stop = &stop};
    if (given) return model.classify_images(files, *given, top_k, options);
    return model.can(Task::classify_sounds) ? model.classify_sounds(files, top_k, options)
                                            : model.classify_images(files, top_k, options);
  }));
}

nb::list fill(const LoadedModel& model, const Texts& texts, std::int64_t top_k) {
  const auto all =
      unlocked([&](const std::atomic<bool>& stop) { return model.fill(texts, top_k, {.stop = &stop}); });
  nb::list list;
  for (const FilledText& text : all)
    list.append(lists_of(text, [](const FillCandidate& candidate) {
      nb::dict found;
      found["score"] = candidate.probability;
      found["token"] = candidate.id;
      found["token_str"] = candidate.token;
      found["sequence"] = candidate.sequence;
      return found;
    }));
  return list;
}

nb::list tag(const LoadedModel& model, const Texts& texts) {
  const auto all = unlocked([&](const std::atomic<bool>& stop) {
    TagOptions options;
    options.task.stop = &stop;
    return model.tag(texts, options);
  });
  return lists_of(all, [](const TaggedText& entity) {
    nb::dict found;
    found["entity_group"] = entity.label;
    found["score"] = entity.score;
    found["word"] = entity.word;
    found["start"] = entity.start;
    found["end"] = entity.end;
    return found;
  });
}

nb::list answer(const LoadedModel& model, const std::vector<std::pair<std::string, std::string>>& questions,
                std::int64_t top_k, bool impossible) {
  std::vector<Question> asked;
  for (const auto& [question, context] : questions) asked.push_back({question, context});
  const auto all = unlocked([&](const std::atomic<bool>& stop) {
    AnswerOptions options{.top_k = top_k, .impossible = impossible};
    options.task.stop = &stop;
    return model.answer(asked, options);
  });
  return lists_of(all, [](const Answer& answer) {
    nb::dict found;
    found["answer"] = answer.text;
    found["score"] = answer.score;
    found["start"] = answer.start;
    found["end"] = answer.end;
    return found;
  });
}

nb::list caption(const LoadedModel& model, const Texts& files, const GenerationOptions& options) {
  const auto all = unlocked([&](const std::atomic<bool>& stop) {
    CaptionOptions caption{.generation = options};
    caption.task.stop = &stop;
    return model.caption(files, caption);
  });
  return lists_of(all, [](const Caption& one) { return nb::cast(one.text); });
}

// --- inside

// One pass. `names` are kept as they are, of `heads` alone unless there are none, and `hooks` are called;
// both are patterns of taps, all of which must exist if `strict`.
nb::tuple forward(const LoadedModel& model, const nb::dict& inputs, const Texts& names, const Ids& heads,
                  const Hooks& hooks, bool strict, bool logits) {
  const TensorMap given = tensors_of(inputs);
  TensorMap kept, outputs;
  {
    Taps taps;
    listen(taps, hooks);
    for (const std::string& name : names)
      taps.listen(name, {.heads = heads},
                  [&kept](const std::string& full, Tensor& value) { kept[full] = value.detach(); });
    outputs = unlocked([&](const std::atomic<bool>& stop) {
      model.require_unchanged_files();
      const NoGradients guard;
      Context context{.taps = names.empty() && hooks.empty() ? nullptr : &taps, .stop = &stop};
      TensorMap found = model.model().forward(given, {.logits = logits}, context);
      if (strict) taps.require_all_fired();
      return found;
    });
  }
  return nb::make_tuple(arrays_of(outputs, true), arrays_of(kept));
}

nb::dict inputs_of(const LoadedModel& model, const std::string& text, const std::optional<std::string>& pair,
                   const std::optional<std::string>& target) {
  const Subject subject = unlocked([&](const std::atomic<bool>& stop) {
    return subject_of(model, {.given = text, .pair = pair, .target = target, .stop = &stop});
  });
  return arrays_of(subject.inputs);
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<LoadedModel> model(module, "LoadedModel");
  model.def_prop_ro("directory", &LoadedModel::directory)
      .def_prop_ro("kind", &LoadedModel::kind)
      .def_prop_ro("model_kind",
                   [](const LoadedModel& self) {
                     switch (traits_of(self.model()).kind) {
                       case ModelKind::decoder: return "decoder";
                       case ModelKind::encoder: return "encoder";
                       case ModelKind::encoder_decoder: return "encoder_decoder";
                       default: return "dual_encoder";
                     }
                   })
      .def_prop_ro("family", [](const LoadedModel& self) { return self.model().family(); })
      .def_prop_ro("tasks",
                   [](const LoadedModel& self) {
                     Texts names;
                     for (const Task task : self.tasks()) names.emplace_back(verb(task));
                     return names;
                   })
      .def_prop_ro("warnings", &LoadedModel::warnings)
      .def_prop_ro("adapters", &LoadedModel::adapters)
      .def_prop_ro("config",
                   [](const LoadedModel& self) { return self.files().text("config.json", 1 << 26); })
      .def_prop_ro("has_chat_template", &LoadedModel::has_chat_template)
      .def_prop_ro("max_positions", [](const LoadedModel& self) { return self.model().max_positions(); })
      .def_prop_ro("trained_positions",
                   [](const LoadedModel& self) { return self.model().trained_positions(); })
      .def_prop_ro("prompts",
                   [](const LoadedModel& self) {
                     nb::dict prompts;
                     for (const auto& [name, text] : self.recipe().prompts) prompts[name.c_str()] = text;
                     return prompts;
                   })
      .def_prop_ro("similarity", [](const LoadedModel& self) { return self.recipe().similarity; })
      .def_prop_ro("generation", [](const LoadedModel& self) { return GenerationOptions(self.generation()); })
      .def("set_languages", &LoadedModel::set_languages, "source"_a.none(), "target"_a.none())
      .def("parameters",
           [](const LoadedModel& self) {
             nb::dict arrays;
             for (const Parameter& one : self.model().parameters())
               arrays[one.name.c_str()] = array_of(one.tensor);
             return arrays;
           })
      .def("parameter_count",
           [](const LoadedModel& self) {
             std::int64_t count = 0;
             for (const Parameter& one : self.model().parameters()) count += one.tensor.numel();
             return count;
           })
      .def("encode", &encode, "texts"_a, "prompt_name"_a.none(), "prompt"_a.none(), "normalize"_a,
           "batch_tokens"_a.none(), "on_warning"_a.none())
      .def("encode_images", &encode_images, "files"_a)
      .def("token_embeddings", &token_embeddings, "texts"_a)
      .def("generate", &generate, "prompts"_a, "options"_a, "stop_strings"_a, "json_schema"_a.none(),
           "regex"_a.none(), "hooks"_a, "on_text"_a.none(), "on_warning"_a.none())
      .def("generate_ids", &generate_ids, "prompts"_a, "options"_a, "stop_strings"_a, "json_schema"_a.none(),
           "regex"_a.none(), "hooks"_a, "on_text"_a.none())
      .def("chat_prompt", &chat_prompt, "conversation"_a)
      .def("translate", &translate, "texts"_a, "options"_a, "prefix"_a, "alignments"_a, "on_warning"_a.none())
      .def("likelihoods", &likelihoods, "requests"_a)
      .def("classify", &classify, "texts"_a, "top_k"_a, "on_warning"_a.none())
      .def("classify_files", &classify_files, "files"_a, "labels"_a.none(), "top_k"_a)
      .def("fill", &fill, "texts"_a, "top_k"_a)
      .def("tag", &tag, "texts"_a)
      .def("answer", &answer, "questions"_a, "top_k"_a, "impossible"_a)
      .def("caption", &caption, "files"_a, "options"_a)
      .def("inputs", &inputs_of, "text"_a, "pair"_a.none(), "target"_a.none())
      .def("forward", &forward, "inputs"_a, "names"_a, "heads"_a, "hooks"_a, "strict"_a, "logits"_a);
  bind_weights(model);
  module.def("load", &open, "name"_a, "dtype"_a, "int8"_a.none(), "adapters"_a, "head"_a.none(), "steer"_a,
             "steer_layers"_a);
  module.def(
      "similarity",
      [](nb::handle a, nb::handle b, const std::string& kind) {
        const Tensor first = rows_of(a, "a"), second = rows_of(b, "b");
        return array_of(unlocked([&](const std::atomic<bool>&) {
                          return similarity(first, second, similarity_named(kind));
                        }),
                        true);
      },
      "a"_a, "b"_a, "kind"_a);
}

}  // namespace heed::python
