// Requests that come and go: which prompts and sources are read next, with what they have in common with
// others, and which batch their rows run in.
#include "heed/generate/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "generate/decoding_batch.h"
#include "generate/prefix_cache.h"
#include "heed/autograd.h"
#include "heed/error.h"

namespace heed {

using generate::DecodingBatch;
using generate::Search;
using generate::SearchTask;

namespace {

// The sources of a batch are padded to the longest of them. Where that is more than so many tokens, they are
// at most this many times what all need; other rows run in a batch of their own.
constexpr std::int64_t kShort = 1024, kMostRoom = 4;

}  // namespace

class Generation::Requests {
 public:
  Requests(const DecoderModel& model, const GenerationLimits& limits)
      : model_(model),
        decoder_(&model),
        limits_(checked(limits)),
        chunk_size_(model.rows_are_independent() ? model.decode(1)->chunk_size() : 0),
        cache_(limits.cached_bytes, chunk_size_) {}
  Requests(const EncoderDecoderModel& model, const GenerationLimits& limits)
      : model_(model),
        encoder_decoder_(&model),
        limits_(checked(limits)),
        chunk_size_(model.has_self_attention() ? 1 : 0),  // else recurrent
        cache_(0, chunk_size_) {}

  std::uint64_t add(GenerationRequest asked);
  Step step();
  void cancel(std::uint64_t number);
  std::vector<Hypothesis> remove(std::uint64_t number);

  bool idle() const { return unread_.empty() && batches_.empty() && finished_.empty(); }
  std::int64_t running() const { return running_; }
  std::int64_t waiting() const { return waiting_; }
  std::int64_t cached_tokens(std::uint64_t number) const { return known(number).cached; }
  std::size_t cached_bytes() const { return cache_.bytes(); }

 private:
  struct Request {
    GenerationRequest asked;
    std::uint64_t number = 0;
    std::int64_t rows = 0;  // that it takes of the limit
    bool alone = false;     // whether it shares no pass
    bool in_pieces = true;  // whether its prompt may be read so
    bool begun = false, finished = false;
    std::uint64_t end = 0;                    // how many had finished before it
    std::unique_ptr<Search> search = {};      // until its batch has it
    std::unique_ptr<Decoding> decoding = {};  // of the tokens read so far, if there are some
    std::int64_t read = 0, cached = 0;        // tokens of the prompt
    std::vector<Hypothesis> results = {};
    std::exception_ptr error = {};

    // What is to be read: the rest of the prompt, and the source, which is read with all of it.
    std::int64_t rest() const { return std::ssize(asked.prompt) - read + source_length(); }
    std::int64_t source_length() const {
      return asked.features.defined() ? asked.features.size(-1) : std::ssize(asked.source);
    }
    CacheDType dtype() const { return asked.options.cache_dtype; }
    std::span<const std::int64_t> prompt() const { return asked.prompt; }
    bool stopped() const { return asked.hooks.stop != nullptr && asked.hooks.stop->load(); }
  };
  struct Group {
    std::unique_ptr<DecodingBatch> batch;
    CacheDType dtype;
    bool alone;
  };

  static GenerationLimits checked(const GenerationLimits& limits);
  // Fills in what an encoder-decoder begins with. Throws Error for a source that it does not take.
  void complete(GenerationRequest& asked) const;
  Request& known(std::uint64_t number) const;
  // The batch that these rows, with this dtype, join without much padding of sources; or null.
  Group* group_for(const DecodingBatch& batch, CacheDType dtype);

  void end_stopped();
  void decode(Group& group, Step& step);
  // Ends all requests of a batch by the current exception: what its rows remember is no longer sound.
  void close_all(DecodingBatch& batch);
  void read_prompts(Step& step);
  // Whether there is room for the rows of a request, which has begun then.
  bool begin(Request& request);
  void take_what_others_read(Request& request);
  void read_piece(Request& request, std::int64_t tokens);
  // The first of the prompts, and those after it that fit into the same pass.
  std::vector<Request*> choose_together(std::int64_t tokens);
  // Reads the prompts to their ends.
  void read_whole(const std::vector<Request*>& requests, Step& step);
  std::unique_ptr<Decoding> decoding_of(const std::vector<Request*>& requests);
  Context context_of(const Request& request) const;

  // Takes what a batch has found: tokens, and searches that are done.
  void collect(DecodingBatch& batch, Step& step);
  void keep(const Search& search, const Decoding& decoding);
  void finish(Request& request, Search& search, const generate::AttentionRecorder& recorder);
  // Ends a request, by an error if there is one.
  void close(Request& request, std::exception_ptr error);

  const Model& model_;
  const DecoderModel* decoder_ = nullptr;  // one of the two
  const EncoderDecoderModel* encoder_decoder_ = nullptr;
  GenerationLimits limits_;
  std::int64_t chunk_size_;  // of the model's decodings; 0: no two requests share a pass
  generate::PrefixCache cache_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, std::unique_ptr<Request>> requests_;
  std::map<std::uint64_t, Request*>
      unread_;                         // prompts not read to their ends, in the order in which they came
  std::set<std::uint64_t> stoppable_;  // not finished, and with SearchHooks::stop
  std::vector<Group> batches_;         // none empty between steps
  std::vector<std::uint64_t> begun_;   // not told yet
  std::map<std::uint64_t, std::uint64_t> finished_;  // not told yet, by the order in which they were
  std::uint64_t ends_ = 0;                           // requests that have finished
  // Of requests that are not finished.
  std::int64_t running_ = 0, running_rows_ = 0, waiting_ = 0;
};

GenerationLimits Generation::Requests::checked(const GenerationLimits& limits) {
  for (const std::int64_t limit : {limits.rows, limits.prompt_tokens}) {
    if (limit < 1)
      throw Error(
          fmt::format("generation: expected limits of at least 1 row and 1 prompt token, got {} and {}",
                      limits.rows, limits.prompt_tokens));
  }
  return limits;
}

std::uint64_t Generation::Requests::add(GenerationRequest asked) {
  if (encoder_decoder_ != nullptr) complete(asked);
  check_generation_options(asked.options, model_.vocab_size());
  if (decoder_ != nullptr) {
    if (asked.features.defined() || !asked.source.empty())
      throw Error("generation: expected a prompt alone for a decoder, got a source");
    check_prompt(*decoder_, asked.prompt, asked.options);
  }
  if (asked.top < 0) throw Error(fmt::format("generation: expected top of at least 0, got {}", asked.top));
  if (asked.hooks.sources.size() > 1)
    throw Error(
        fmt::format("generation: expected the source of one row, got {}", asked.hooks.sources.size()));
  if (const auto most = generate::most_tokens(asked.options, model_))
    asked.hooks.longest = std::min(*most, asked.hooks.longest.value_or(*most));
  auto request = std::make_unique<Request>();
  request->asked = std::move(asked);
  request->number = next_;
  const GenerationRequest& own = request->asked;
  request->rows = std::max(own.options.num_beams, own.options.num_return_sequences);
  const bool listens = own.hooks.taps != nullptr || !own.hooks.capture.empty();
  request->alone = chunk_size_ == 0 || listens;
  request->in_pieces = !request->alone || (chunk_size_ > 0 && own.taps_in_pieces);
  request->search = generate::make_search({.prompt = own.prompt,
                                           .options = own.options,
                                           .hooks = own.hooks,
                                           .sample_id = own.sample_id,
                                           .request = next_,
                                           .top = own.top});
  unread_.emplace_hint(unread_.end(), next_, request.get());
  if (own.hooks.stop != nullptr) stoppable_.insert(next_);
  ++waiting_;
  requests_.emplace_hint(requests_.end(), next_, std::move(request));
  return next_++;
}

void Generation::Requests::complete(GenerationRequest& asked) const {
  const EncoderDecoderModel& model = *encoder_decoder_;
  if (asked.features.defined() == !asked.source.empty())
    throw Error("generation: expected a source or features for an encoder-decoder, got " +
                std::string(asked.source.empty() ? "neither" : "both"));
  if (asked.features.defined()) {
    generate::check_features(asked.features, model);
    if (asked.features.size(0) != 1)
      throw Error("generation: expected features of one row, got " + asked.features.str());
  } else {
    generate::check_source(asked.source, 0, model);
  }
  asked.options = generate::with_special_tokens(std::move(asked.options), model,
                                                std::max<std::int64_t>(1, std::ssize(asked.prompt)));
  if (asked.prompt.empty()) asked.prompt = {*asked.options.decoder_start_token_id};
  generate::check_ids(asked.prompt, model.vocab_size(), "the decoder's prompt");
  if (asked.hooks.sources.empty()) asked.hooks.sources = {asked.source};
}

Generation::Step Generation::Requests::step() {
  const NoGradients no_gradients;
  Step step;
  end_stopped();
  for (Group& group : batches_) decode(group, step);
  read_prompts(step);
  std::erase_if(batches_, [](const Group& group) { return group.batch->empty(); });
  step.begun = std::exchange(begun_, {});
  for (const auto& [order, number] : std::exchange(finished_, {})) step.finished.push_back(number);
  return step;
}

void Generation::Requests::end_stopped() {
  for (auto next = stoppable_.begin(); next != stoppable_.end();) {
    Request& request = known(*next++);
    if (!request.stopped()) continue;
    for (Group& group : batches_) group.batch->take(request.number);
    close(request, std::make_exception_ptr(Canceled()));
  }
  std::erase_if(batches_, [](const Group& group) { return group.batch->empty(); });
}

void Generation::Requests::decode(Group& group, Step& step) {
  try {
    group.batch->step();
  } catch (...) {
    return close_all(*group.batch);
  }
  collect(*group.batch, step);
}

void Generation::Requests::close_all(DecodingBatch& batch) {
  for (const Search* search : batch.searches()) {
    const std::uint64_t number = search->task().request;
    batch.take(number);
    close(known(number), std::current_exception());
  }
}

void Generation::Requests::collect(DecodingBatch& batch, Step& step) {
  for (const auto& search : batch.take_done()) {
    Request& request = known(search->task().request);
    if (search->error) {
      close(request, search->error);
      continue;
    }
    if (!request.alone) keep(*search, batch.decoding());
    finish(request, *search, batch.recorder());
  }
  for (GeneratedToken& token : batch.take_tokens()) step.tokens.push_back(std::move(token));
  batch.arrange();
}

void Generation::Requests::keep(const Search& search, const Decoding& decoding) {
  const generate::Sequence& last = search.last_read();
  const CacheDType dtype = search.task().options.cache_dtype;
  if (decoder_ == nullptr || chunk_size_ != 1 || !cache_.wants(last.ids, dtype)) return;
  try {
    cache_.keep(last.ids, dtype, decoding.copy_row(last.row, std::ssize(last.ids)));
  } catch (const std::bad_alloc&) {  // the request has its tokens all the same
  } catch (const Error&) {           // of the memory of tensors
  }
}

void Generation::Requests::finish(Request& request, Search& search,
                                  const generate::AttentionRecorder& recorder) {
  try {
    recorder.require_all_fired();
    request.results = search.results(recorder);
  } catch (...) {
    return close(request, std::current_exception());
  }
  close(request, nullptr);
}

void Generation::Requests::close(Request& request, std::exception_ptr error) {
  request.error = std::move(error);
  request.finished = true;
  request.search = nullptr;
  request.decoding = nullptr;
  unread_.erase(request.number);
  stoppable_.erase(request.number);
  if (request.begun) {
    --running_;
    running_rows_ -= request.rows;
  } else {
    --waiting_;
  }
  request.end = ends_++;
  finished_.emplace_hint(finished_.end(), request.end, request.number);
}

Generation::Requests::Group* Generation::Requests::group_for(const DecodingBatch& batch, CacheDType dtype) {
  const auto fits = [&](const Group& group) {
    if (group.alone || group.dtype != dtype || group.batch->empty()) return false;
    std::int64_t rows = 0, longest = 0, tokens = 0;
    for (const DecodingBatch* each : {&batch, static_cast<const DecodingBatch*>(group.batch.get())}) {
      for (Search* search : each->searches()) {
        const std::int64_t source = known(search->task().request).source_length();
        const std::int64_t count = std::ssize(search->sequences());
        rows += count;
        tokens += count * source;
        longest = std::max(longest, source);
      }
    }
    return longest <= kShort || rows * longest <= kMostRoom * tokens;
  };
  const auto found = std::find_if(batches_.begin(), batches_.end(), fits);
  return found == batches_.end() ? nullptr : &*found;
}

void Generation::Requests::read_prompts(Step& step) {
  const std::int64_t most = limits_.prompt_tokens;
  for (std::int64_t left = most; left > 0 && !unread_.empty() && begin(*unread_.begin()->second);) {
    Request& first = *unread_.begin()->second;
    if (!first.in_pieces) {
      left -= first.rest();
      read_whole({&first}, step);
      continue;
    }
    take_what_others_read(first);
    if (first.rest() <= left) {
      const std::vector<Request*> together =
          first.alone ? std::vector<Request*>{&first} : choose_together(left);
      std::int64_t longest = 0;
      for (const Request* request : together) longest = std::max(longest, request->rest());
      left -= longest * std::ssize(together);
      read_whole(together, step);
      continue;
    }
    std::int64_t tokens = left / chunk_size_ * chunk_size_;
    // A source has no pieces.
    if (encoder_decoder_ != nullptr) tokens = left < most ? 0 : first.rest();
    if (tokens == 0 && left < most) return;  // the next step has more
    tokens = std::max(tokens, chunk_size_);
    if (tokens >= first.rest()) {
      read_whole({&first}, step);
    } else {
      read_piece(first, tokens);
    }
    left -= tokens;
  }
}

bool Generation::Requests::begin(Request& request) {
  if (request.begun) return true;
  request.begun = running_rows_ == 0 || running_rows_ + request.rows <= limits_.rows;
  if (!request.begun) return false;
  ++running_;
  --waiting_;
  running_rows_ += request.rows;
  begun_.push_back(request.number);
  return true;
}

void Generation::Requests::take_what_others_read(Request& request) {
  if (decoder_ == nullptr || request.alone || request.read > request.cached) return;
  auto [from, length] = cache_.find(request.prompt(), request.dtype());
  std::int64_t row = 0;
  for (const Group& group : batches_) {
    if (chunk_size_ != 1 || group.alone || group.dtype != request.dtype()) continue;
    for (Search* search : group.batch->searches()) {
      for (const generate::Sequence* sequence : search->sequences()) {
        const std::span<const std::int64_t> read(sequence->ids.data(), sequence->ids.size() - 1);
        const std::int64_t common = generate::shared_tokens(read, request.prompt(), chunk_size_);
        if (common <= length) continue;
        from = &group.batch->decoding();
        row = sequence->row;
        length = common;
      }
    }
  }
  if (length <= request.read) return;
  try {
    request.decoding = from->copy_row(row, length);
  } catch (const std::bad_alloc&) {
    return;                 // it reads them itself
  } catch (const Error&) {  // of the memory of tensors
    return;
  }
  request.read = request.cached = length;
}

Context Generation::Requests::context_of(const Request& request) const {
  Context context{.cache_dtype = request.dtype(), .cache_length = std::ssize(request.prompt())};
  if (request.alone) {
    context.taps = request.asked.hooks.taps;
    context.stop = request.asked.hooks.stop;
  }
  return context;
}

void Generation::Requests::read_piece(Request& request, std::int64_t tokens) {
  try {
    if (request.decoding == nullptr) request.decoding = decoder_->decode(1);
    Context context = context_of(request);
    const auto piece =
        request.prompt().subspan(static_cast<std::size_t>(request.read), static_cast<std::size_t>(tokens));
    request.decoding->step(Tensor::from(piece, {1, tokens}), context);
    request.read += tokens;
    const auto read = request.prompt().first(static_cast<std::size_t>(request.read));
    if (chunk_size_ != 1 && !request.alone && cache_.wants(read, request.dtype()))
      cache_.keep({read.begin(), read.end()}, request.dtype(), request.decoding->copy_row(0, request.read));
  } catch (...) {
    close(request, std::current_exception());
  }
}

std::vector<Generation::Requests::Request*> Generation::Requests::choose_together(std::int64_t tokens) {
  auto waiting = unread_.begin();
  Request& first = *waiting->second;
  std::vector<Request*> together{&first};
  std::int64_t longest = first.rest();
  while (++waiting != unread_.end()) {
    Request& next = *waiting->second;
    if (next.alone || next.dtype() != first.dtype() || next.asked.features.defined() ||
        first.asked.features.defined())
      break;
    if (!begin(next)) break;
    take_what_others_read(next);
    // Once those are read, it need not read what they have in common.
    const auto shares = [&](const Request* other) {
      return decoder_ != nullptr && chunk_size_ == 1 &&
             generate::shared_tokens(other->prompt(), next.prompt(), chunk_size_) > next.read;
    };
    if (std::any_of(together.begin(), together.end(), shares)) break;
    longest = std::max(longest, next.rest());
    if (longest * (std::ssize(together) + 1) > tokens || (next.read > 0) != (first.read > 0)) break;
    together.push_back(&next);
  }
  return together;
}

std::unique_ptr<Decoding> Generation::Requests::decoding_of(const std::vector<Request*>& requests) {
  if (encoder_decoder_ != nullptr) {
    Context context = context_of(*requests.front());
    if (const Tensor& features = requests.front()->asked.features; features.defined())
      return encoder_decoder_->decode({.values = features.to(DType::f32).contiguous()}, context);
    std::vector<std::vector<std::int64_t>> sources;
    for (const Request* request : requests) sources.push_back(request->asked.source);
    return encoder_decoder_->decode(generate::padded_sources(sources, encoder_decoder_->pad_id()), context);
  }
  if (requests.front()->read == 0) return decoder_->decode(std::ssize(requests));
  std::unique_ptr<Decoding> all = std::move(requests.front()->decoding);
  for (std::size_t i = 1; i < requests.size(); ++i) {
    all->join(*requests[i]->decoding);
    requests[i]->decoding = nullptr;
  }
  return all;
}

void Generation::Requests::read_whole(const std::vector<Request*>& requests, Step& step) {
  const Request& first = *requests.front();
  for (const Request* request : requests) unread_.erase(request->number);
  try {
    std::unique_ptr<Decoding> decoding;
    try {
      decoding = decoding_of(requests);
    } catch (const Error&) {
      if (encoder_decoder_ == nullptr || requests.size() == 1) throw;
      for (Request* request : requests) read_whole({request}, step);  // the model refuses one of the sources
      return;
    }
    auto batch =
        std::make_unique<DecodingBatch>(std::move(decoding), context_of(first), first.asked.hooks.capture);
    for (Request* request : requests) {
      batch->add(std::move(request->search), request->read);
      request->read = std::ssize(request->prompt());
    }
    batch->read();
    collect(*batch, step);
    if (batch->empty()) return;
    Group* const group = first.alone ? nullptr : group_for(*batch, first.dtype());
    if (group == nullptr) {
      batches_.push_back({std::move(batch), first.dtype(), first.alone});
      return;
    }
    try {
      group->batch->join(*batch);
    } catch (...) {
      close_all(*group->batch);
      throw;
    }
  } catch (...) {
    for (Request* request : requests) {
      if (!request->finished) close(*request, std::current_exception());
    }
  }
}

void Generation::Requests::cancel(std::uint64_t number) {
  Request& request = known(number);
  if (request.finished) return;
  for (Group& group : batches_) {
    const std::unique_ptr<Search> search = group.batch->take(number);
    if (search == nullptr) continue;
    search->end(group.batch->recorder());
    finish(request, *search, group.batch->recorder());
    group.batch->arrange();
    std::erase_if(batches_, [](const Group& each) { return each.batch->empty(); });
    return;
  }
  const generate::AttentionRecorder nothing({}, Context());
  const std::unique_ptr<Search> search = std::move(request.search);
  search->end(nothing);
  finish(request, *search, nothing);
}

std::vector<Hypothesis> Generation::Requests::remove(std::uint64_t number) {
  Request& request = known(number);
  if (!request.finished)
    throw Error(fmt::format("generation: expected a finished request, got {}, which is not (cancel it first)",
                            number));
  finished_.erase(request.end);
  const auto taken = requests_.extract(number);
  if (request.error) std::rethrow_exception(request.error);
  return std::move(request.results);
}

Generation::Requests::Request& Generation::Requests::known(std::uint64_t number) const {
  const auto found = requests_.find(number);
  if (found == requests_.end())
    throw Error(fmt::format("generation: expected a request that was added and not removed, got {}", number));
  return *found->second;
}

Generation::Generation(const DecoderModel& model, const GenerationLimits& limits)
    : requests_(std::make_unique<Requests>(model, limits)) {}
Generation::Generation(const EncoderDecoderModel& model, const GenerationLimits& limits)
    : requests_(std::make_unique<Requests>(model, limits)) {}
Generation::~Generation() = default;
std::uint64_t Generation::add(GenerationRequest request) { return requests_->add(std::move(request)); }
Generation::Step Generation::step() { return requests_->step(); }
bool Generation::idle() const { return requests_->idle(); }
void Generation::cancel(std::uint64_t request) { requests_->cancel(request); }
std::vector<Hypothesis> Generation::remove(std::uint64_t request) { return requests_->remove(request); }
std::int64_t Generation::running() const { return requests_->running(); }
std::int64_t Generation::waiting() const { return requests_->waiting(); }
std::int64_t Generation::cached_tokens(std::uint64_t request) const {
  return requests_->cached_tokens(request);
}
std::size_t Generation::cached_bytes() const { return requests_->cached_bytes(); }

}  // namespace heed
