// One step for all searches of a batch: logits, choices, and rows that follow their hypotheses.
#include "generate/decoding_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"

namespace heed::generate {

namespace {

// Calls fn; what it throws ends the search.
template <class Fn>
void guarded(Search& search, Fn fn) {
  if (search.error) return;
  try {
    fn();
  } catch (...) {
    search.error = std::current_exception();
  }
}

// Gives the sequences that have no row yet the free ones among `candidates`. `taken[i]` is the old row that
// row i becomes, or -1.
template <class Rows>
void place(std::vector<Sequence*>& homeless, const Rows& candidates, std::vector<std::int64_t>& taken) {
  for (const std::int64_t row : candidates) {
    if (homeless.empty()) return;
    if (row >= std::ssize(taken) || taken[static_cast<std::size_t>(row)] >= 0) continue;
    taken[static_cast<std::size_t>(row)] = homeless.front()->row;
    homeless.front()->row = row;
    homeless.erase(homeless.begin());
  }
}

}  // namespace

DecodingBatch::DecodingBatch(Decoding& decoding, const Context& context,
                             const std::vector<std::string>& capture)
    : decoding_(&decoding), recorder_(capture, context) {}

DecodingBatch::DecodingBatch(std::unique_ptr<Decoding> decoding, const Context& context,
                             const std::vector<std::string>& capture)
    : own_(std::move(decoding)), decoding_(own_.get()), recorder_(capture, context) {}

void DecodingBatch::add(std::unique_ptr<Search> search, std::int64_t read) {
  const std::int64_t row = std::ssize(members_);
  for (Sequence* sequence : search->sequences()) sequence->row = row;
  std::int64_t& longest = recorder_.context().cache_length;
  longest = std::max(longest, search->max_length());
  members_.push_back({std::move(search), read, {row}});
}

void DecodingBatch::read() {
  std::int64_t longest = 0;
  std::vector<std::int64_t> lengths;
  for (const Member& member : members_) {
    lengths.push_back(member.search->prompt_length() - member.read);
    longest = std::max(longest, lengths.back());
  }
  const Tensor ids = Tensor::zeros({std::ssize(members_), longest}, DType::i64);
  std::int64_t* to = ids.data<std::int64_t>();
  for (const Member& member : members_) {
    const auto& prompt = member.search->task().prompt;
    std::copy(prompt.begin() + member.read, prompt.end(), to);
    to += longest;
  }
  const Tensor logits = recorder_.step(*decoding_, ids, lengths);
  for (const Member& member : members_) {
    check_generation_options(member.search->task().options, logits.size(1));
    for (const std::int64_t id : member.search->task().prompt) {
      if (id >= 0 && id < logits.size(1)) continue;
      throw Error(fmt::format("search: expected a prompt of tokens below {}, got {}", logits.size(1), id));
    }
  }
  choose_tokens(logits);
}

void DecodingBatch::step() {
  arrange();
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(decoding_->rows()));
  for (const Member& member : members_) {
    for (const Sequence* sequence : member.search->sequences())
      tokens[static_cast<std::size_t>(sequence->row)] = sequence->ids.back();
  }
  choose_tokens(recorder_.step(*decoding_, Tensor::from(tokens, {std::ssize(tokens), 1}), {}));
}

void DecodingBatch::choose_tokens(const Tensor& logits) {
  const auto choose = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Search& search = *members_[static_cast<std::size_t>(i)].search;
      guarded(search, [&] { search.choose(logits); });
    }
  };
  const std::int64_t count = std::ssize(members_);
  const std::int64_t scores = logits.numel() / std::max<std::int64_t>(count, 1);  // of a search, on average
  if (count == 1) {
    choose(0, 1);  // its sequences may have threads of their own
  } else {
    parallel_for(count, kScoresPerThread / std::max<std::int64_t>(scores, 1) + 1, choose);
  }
  std::vector<Member> going;
  for (Member& member : members_) {
    Search& search = *member.search;
    guarded(search, [&] { search.advance(recorder_, tokens_); });
    if (search.error || search.sequences().empty()) {
      done_.push_back(std::move(member.search));
    } else {
      going.push_back(std::move(member));
    }
  }
  members_ = std::move(going);
}

void DecodingBatch::arrange() {
  std::int64_t count = 0;
  for (const Member& member : members_) count += std::ssize(member.search->sequences());
  if (count == 0) return;  // whoever has the decoding may go on from its rows
  std::vector<std::int64_t> taken(static_cast<std::size_t>(count), -1);
  std::vector<std::vector<Sequence*>> homeless;
  for (const Member& member : members_) {
    homeless.emplace_back();
    for (Sequence* sequence : member.search->sequences()) {
      const std::int64_t row = sequence->row;
      if (row < count && taken[static_cast<std::size_t>(row)] < 0) {
        taken[static_cast<std::size_t>(row)] = row;
      } else {
        homeless.back().push_back(sequence);
      }
    }
  }
  // Rows of one search have much in common, which need not be copied.
  for (std::size_t i = 0; i < members_.size(); ++i) place(homeless[i], members_[i].rows, taken);
  std::vector<std::int64_t> all(taken.size());
  for (std::size_t row = 0; row < all.size(); ++row) all[row] = static_cast<std::int64_t>(row);
  for (auto& rest : homeless) place(rest, all, taken);
  for (Member& member : members_) {
    member.rows.clear();
    for (const Sequence* sequence : member.search->sequences()) member.rows.push_back(sequence->row);
  }
  if (taken != all || decoding_->rows() != count) decoding_->reorder(taken);
}

void DecodingBatch::join(DecodingBatch& other) {
  arrange();
  other.arrange();
  const std::int64_t before = decoding_->rows();
  decoding_->join(*other.decoding_);
  std::int64_t& longest = recorder_.context().cache_length;
  for (Member& member : other.members_) {
    for (Sequence* sequence : member.search->sequences()) sequence->row += before;
    for (std::int64_t& row : member.rows) row += before;
    longest = std::max(longest, member.search->max_length());
    members_.push_back(std::move(member));
  }
  other.members_.clear();
}

std::vector<std::unique_ptr<Search>> DecodingBatch::take_done() { return std::exchange(done_, {}); }

std::unique_ptr<Search> DecodingBatch::take(std::uint64_t request) {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.search->task().request == request;
  });
  if (found == members_.end()) return nullptr;
  std::unique_ptr<Search> search = std::move(found->search);
  members_.erase(found);
  return search;
}

std::vector<Search*> DecodingBatch::searches() const {
  std::vector<Search*> searches;
  for (const Member& member : members_) searches.push_back(member.search.get());
  return searches;
}

}  // namespace heed::generate
