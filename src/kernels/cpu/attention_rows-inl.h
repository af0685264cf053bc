// A few queries against many keys, with keys on the lanes of vectors: decoding, and requested weights. Keys
// are transposed in cache, block by block; values are read in place. The order of operations on each number
// is the tile's (attention_tile-inl.h), and so are the bits.
#if defined(HEED_KERNELS_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_ROWS_INL_H_
#undef HEED_KERNELS_ATTENTION_ROWS_INL_H_
#else
#define HEED_KERNELS_ATTENTION_ROWS_INL_H_
#endif

#include "kernels/cpu/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Queries that are worked on together at most.
inline constexpr int64_t kMostRows = 16;
/// From one query's scores of a block to the next's: products are made a vector at a time, from any key on.
inline constexpr int64_t kRowStride = kKeyBlock + 16;

struct RowQuery {
  int64_t h;
  int64_t t;
};

/// Products of some queries of one key-value head with its keys, a block at a time.
template <class T>
class RowScores {
 public:
  static int64_t numbers(const AttentionShape& s) {
    return kMostRows * (Workspace<T>::whole(s.head_dim) + kRowStride) + kKeyBlock * (s.head_dim + 1) +
           kKeyBlock * padded<T>(s.head_dim);
  }
  RowScores(const AttentionShape& shape, const MaskAndBias<T>& mask_and_bias, Workspace<T>& workspace)
      : s_(shape),
        mask_and_bias_(mask_and_bias),
        q_(workspace.take(kMostRows * Workspace<T>::whole(shape.head_dim))),
        scores_(workspace.take(kMostRows * kRowStride)),
        keys_(workspace.take(kKeyBlock * shape.head_dim)),
        workspace_(workspace.take(kKeyBlock * padded<T>(shape.head_dim))),
        terms_(workspace.take(kKeyBlock)) {}

  /// The queries to come, all of one key-value head of batch b.
  void take_queries(int64_t b, const std::vector<RowQuery>& queries, const T* q) {
    b_ = b;
    queries_ = &queries;
    keys_seen_ = {std::numeric_limits<int64_t>::max(), 0};
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const T* from = head_of(q, s_.q, b, queries[i].h) + queries[i].t * s_.q.row;
      T* to = q_ + static_cast<int64_t>(i) * stride();
      std::copy(from, from + s_.head_dim, to);
      scale_row(mask_and_bias_.query_factor(), s_.head_dim, to);
      const Interval keys = mask_and_bias_.visible(b, queries[i].t);
      if (keys.empty()) continue;
      keys_seen_ = {std::min(keys_seen_.begin, keys.begin), std::max(keys_seen_.end, keys.end)};
    }
  }
  /// The keys that some of them may see.
  Interval keys_seen() const { return keys_seen_; }

  /// Calculates with the keys of the block that starts at `block`, of which some are seen.
  void multiply(const Stored<T>& k, int64_t block) {
    const int64_t n = std::min(kKeyBlock, s_.keys - block);
    const Interval keys = both({block, block + n}, keys_seen_);
    const int64_t kv = queries_->front().h / (s_.heads / s_.kv_heads);
    const int64_t columns = padded<T>(keys.size());
    pack_transposed<T>(keys.size(), s_.head_dim, k.rows({b_, kv}, keys, s_.head_dim, workspace_),
                       {keys_, columns}, columns);
    tile_multiply<Into::c, false, T>(static_cast<int64_t>(queries_->size()), columns, s_.head_dim,
                                     Left<T>{q_, stride(), 1}, {keys_, columns},
                                     {scores_ + keys.begin - block, kRowStride});
    block_ = block;
  }
  /// The numbers of query i with the keys of the block, the first being the block's.
  T* row(std::size_t i) const { return scores_ + static_cast<int64_t>(i) * kRowStride; }
  /// Turns them into scores where the query sees the keys: in the interval returned, counted from the
  /// block's.
  Interval finish_row(std::size_t i) const {
    const RowQuery& query = (*queries_)[i];
    const Interval keys = both({block_, block_ + kKeyBlock}, mask_and_bias_.visible(b_, query.t));
    if (keys.empty()) return {0, 0};
    T* scores = row(i) + keys.begin - block_;
    const int64_t n = keys.size();
    if (mask_and_bias_.has_cap()) cap_row(mask_and_bias_.cap_factor(), n, scores);
    if (mask_and_bias_.has_distance_terms()) {
      mask_and_bias_.distance_terms(query.h, mask_and_bias_.position(b_, query.t) - (keys.end - 1), n,
                                    terms_);
      for (int64_t j = 0; j < n; ++j) scores[j] += terms_[n - 1 - j];
    }
    if (mask_and_bias_.has_terms(b_, keys)) {
      mask_and_bias_.terms_row({b_, query.h}, query.t, keys, terms_);
      for (int64_t j = 0; j < n; ++j) scores[j] += terms_[j];
    }
    return {keys.begin - block_, keys.end - block_};
  }

 private:
  int64_t stride() const { return Workspace<T>::whole(s_.head_dim); }

  const AttentionShape& s_;
  const MaskAndBias<T>& mask_and_bias_;
  T *q_, *scores_, *keys_, *workspace_, *terms_;
  int64_t b_ = 0, block_ = 0;
  Interval keys_seen_{0, 0};
  const std::vector<RowQuery>* queries_ = nullptr;
};

/// The state of a softmax over keys for one query.
template <class T>
struct RowSoftmax {
  T largest = kNoScore<T>;
  T sum = 0;
  T* o = nullptr;  // [value_dim]
};

/// Takes scores[rows] of a block into the softmax; they become probabilities in units of its largest.
template <class T>
HWY_NOINLINE void online_softmax_update_row(Interval rows, int64_t value_dim, RowSoftmax<T>& to, T* scores) {
  constexpr int64_t N = lanes<T>(), kVectors = kSumParts / N;
  const Interval whole{rows.begin / kSumParts * kSumParts,
                       (rows.end + kSumParts - 1) / kSumParts * kSumParts};
  const T lowest = -std::numeric_limits<T>::infinity();
  std::fill(scores + whole.begin, scores + rows.begin, lowest);
  std::fill(scores + rows.end, scores + whole.end, lowest);
  const Vec<T> before = broadcast(to.largest);
  const Vec<T> largest = hn::Max(before, broadcast(row_max(scores + rows.begin, rows.size())));
  const Vec<T> factor = exp2_of(hn::Sub(before, largest));
  to.largest = hn::GetLane(largest);
  scale_row(hn::GetLane(factor), value_dim, to.o);
  Vec<T> parts[kVectors];
  for (auto& part : parts) part = hn::Zero(Tag<T>());
  for (int64_t i = whole.begin; i < whole.end; i += kSumParts) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const Vec<T> p = exp2_of(hn::Sub(load(scores + i + v * N), largest));
      store<T>(p, scores + i + v * N);
      parts[v] = hn::Add(parts[v], p);
    }
  }
  T numbers[kSumParts];
  for (int64_t v = 0; v < kVectors; ++v) store<T>(parts[v], numbers + v * N);
  Vec<T> spread[kSumParts];
  for (int64_t j = 0; j < kSumParts; ++j) spread[j] = broadcast(numbers[j]);
  const Vec<T> sum = hn::Add(sum_eight(spread), sum_eight(spread + 8));
  to.sum = hn::GetLane(hn::MulAdd(broadcast(to.sum), factor, sum));
}

/// total = total and part together.
template <class T>
HWY_NOINLINE void merge_partials_row(int64_t value_dim, const RowSoftmax<T>& part, RowSoftmax<T>& total) {
  const Vec<T> a = broadcast(total.largest), b = broadcast(part.largest);
  const Vec<T> largest = hn::Max(a, b);
  const Vec<T> fa = exp2_of(hn::Sub(a, largest)), fb = exp2_of(hn::Sub(b, largest));
  const auto join = [=](auto x, auto y) HWY_ATTR { return hn::MulAdd(x, fa, hn::Mul(y, fb)); };
  total.largest = hn::GetLane(largest);
  total.sum = hn::GetLane(join(broadcast(total.sum), broadcast(part.sum)));
  map_range<T>(0, value_dim, total.o, join, static_cast<const T*>(total.o), static_cast<const T*>(part.o));
}

/// Attention of a few queries per key-value head. A task is one span of the keys of one key-value head, for
/// all the queries that read it; a second round joins the spans.
template <class T>
class RowForward {
 public:
  static bool suits(const AttentionShape& s) {
    return s.queries * (s.heads / std::max<int64_t>(s.kv_heads, 1)) <= kMostRows;
  }
  RowForward(const AttentionShape& shape, const AttentionOptions<T>& options, const ForwardArgs<T>& args,
             const MaskAndBias<T>& mask_and_bias)
      : s_(shape),
        o_(options),
        a_(args),
        mask_and_bias_(mask_and_bias),
        keep_(options.random, options.dropout) {
    wide_ = Workspace<T>::whole(s_.value_dim);
    rows_ = s_.queries * (s_.heads / s_.kv_heads);
    spans_ = std::max<int64_t>(1, (s_.keys + kSpan - 1) / kSpan);
  }

  void run() const {
    const int64_t heads = s_.batch * s_.kv_heads;
    const int64_t state = rows_ * (wide_ + 2);  // of a span: o, largest and sum of each row
    const Workspaces<T> states(1, heads * spans_ * state);
    T* const parts = states.data();
    // A key and a value come from memory: reading them takes as long as some rows' products with them.
    const int64_t work = (rows_ + kReading) * std::min(kSpan, s_.keys) * (s_.head_dim + s_.value_dim) / 8;
    const int64_t tasks = heads * spans_, grain = row_grain(work);
    const int64_t team = team_size(tasks, grain);
    const Workspaces<T> workspaces(team,
                                   RowScores<T>::numbers(s_) + kKeyBlock * (padded<T>(s_.value_dim) + 1));
    parallel_for_team(team, tasks, grain, [&](int64_t member, int64_t begin, int64_t end) HWY_ATTR {
      Workspace<T> workspace = workspaces.at(member);
      RowScores<T> scores(s_, mask_and_bias_, workspace);
      T* values = workspace.take(kKeyBlock * padded<T>(s_.value_dim));
      T* factors = workspace.take(kKeyBlock);
      std::vector<RowQuery> queries;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t head = task / spans_;
        choose(head % s_.kv_heads, queries);
        scores.take_queries(head / s_.kv_heads, queries, a_.q);
        span(head, task % spans_ * kSpan, queries, scores, values, factors, parts + task * state);
      }
    });
    parallel_for(heads, row_grain(rows_ * spans_ * wide_), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t head = begin; head < end; ++head) finish(head, parts + head * spans_ * state, state);
    });
  }

 private:
  void choose(int64_t kv, std::vector<RowQuery>& queries) const {
    const int64_t group = s_.heads / s_.kv_heads;
    queries.clear();
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t t = 0; t < s_.queries; ++t) queries.push_back({h, t});
    }
  }

  RowSoftmax<T> load_state(const T* parts, int64_t i) const {
    return {parts[rows_ * wide_ + 2 * i], parts[rows_ * wide_ + 2 * i + 1],
            const_cast<T*>(parts) + i * wide_};
  }

  void span(int64_t head, int64_t first, const std::vector<RowQuery>& queries, RowScores<T>& scores,
            T* values, T* factors, T* parts) const {
    const int64_t b = head / s_.kv_heads, kv = head % s_.kv_heads;
    std::fill(parts, parts + rows_ * wide_, T(0));
    RowSoftmax<T> states[kMostRows];
    for (int64_t i = 0; i < rows_; ++i) states[i].o = parts + i * wide_;
    const Interval seen = both(scores.keys_seen(), {first, std::min(first + kSpan, s_.keys)});
    for (int64_t block = first; block < seen.end; block += kKeyBlock) {
      const Interval keys = both(seen, {block, block + kKeyBlock});
      if (keys.empty() || !mask_and_bias_.any_present(b, keys)) continue;
      scores.multiply(a_.k, block);
      const Interval rows{keys.begin - block, keys.end - block};
      for (std::size_t i = 0; i < queries.size(); ++i) {
        softmax_block(b, queries[i], i, block, rows, scores, factors, states[i]);
      }
      tile_multiply<Into::sum, false, T>(rows_, padded<T>(s_.value_dim), keys.size(),
                                         Left<T>{scores.row(0) + rows.begin, kRowStride, 1},
                                         a_.v.rows({b, kv}, keys, s_.value_dim, values), {parts, wide_});
    }
    for (int64_t i = 0; i < rows_; ++i) {
      parts[rows_ * wide_ + 2 * i] = states[i].largest;
      parts[rows_ * wide_ + 2 * i + 1] = states[i].sum;
    }
  }

  /// Probabilities of one query with a block, 0 in the rest of `rows`.
  void softmax_block(int64_t b, const RowQuery& query, std::size_t i, int64_t block, Interval rows,
                     const RowScores<T>& scores, T* factors, RowSoftmax<T>& state) const {
    T* p = scores.row(i);
    const Interval seen = scores.finish_row(i);
    if (seen.empty()) {
      std::fill(p + rows.begin, p + rows.end, T(0));
      return;
    }
    online_softmax_update_row(seen, s_.value_dim, state, p);
    std::fill(p + rows.begin, p + seen.begin, T(0));
    std::fill(p + seen.end, p + rows.end, T(0));
    if (o_.dropout == 0) return;
    keep_.factors(mask_and_bias_.dropout_index({b, query.h}, query.t, block + seen.begin), seen.size(),
                  factors);
    map_range<T>(
        0, seen.size(), p + seen.begin, [](auto x, auto y) HWY_ATTR { return hn::Mul(x, y); },
        static_cast<const T*>(p + seen.begin), static_cast<const T*>(factors));
  }

  void finish(int64_t head, T* parts, int64_t state) const {
    const int64_t b = head / s_.kv_heads;
    std::vector<RowQuery> queries;
    choose(head % s_.kv_heads, queries);
    for (int64_t i = 0; i < rows_; ++i) {
      RowSoftmax<T> total = load_state(parts, i);
      for (int64_t span = 1; span < spans_; ++span) {
        merge_partials_row(s_.value_dim, load_state(parts + span * state, i), total);
      }
      const RowQuery& query = queries[static_cast<std::size_t>(i)];
      T* o = head_of(a_.o, s_.o, b, query.h) + query.t * s_.o.row;
      const Vec<T> inverse = inverse_of(broadcast(total.sum));
      map_range<T>(
          0, s_.value_dim, o, [=](auto v) HWY_ATTR { return hn::Mul(v, inverse); },
          static_cast<const T*>(total.o));
      if (a_.logsumexp != nullptr) {
        a_.logsumexp[(b * s_.heads + query.h) * s_.queries + query.t] =
            hn::GetLane(logsumexp_of(broadcast(total.largest), broadcast(total.sum)));
      }
    }
  }

  static constexpr int64_t kReading = 8;

  const AttentionShape& s_;
  const AttentionOptions<T>& o_;
  const ForwardArgs<T>& a_;
  const MaskAndBias<T>& mask_and_bias_;
  Keep keep_;
  int64_t wide_, rows_, spans_;
};

/// The requested weights, from the scores and their logsumexp.
template <class T>
class RowWeights {
 public:
  RowWeights(const AttentionShape& shape, const ForwardArgs<T>& args, const MaskAndBias<T>& mask_and_bias)
      : s_(shape), a_(args), mask_and_bias_(mask_and_bias) {
    for (int64_t h = 0; h < s_.heads; ++h) {
      if (a_.weight_heads == nullptr || a_.weight_heads[h]) heads_.push_back(h);
    }
    rows_ = a_.weight_rows == nullptr ? s_.queries : a_.weight_row_count;
  }

  void run() const {
    const auto wanted = static_cast<int64_t>(heads_.size());
    const int64_t pieces = (rows_ + kMostRows - 1) / kMostRows;
    const int64_t work = kMostRows * s_.keys * s_.head_dim / 8;
    const int64_t tasks = s_.batch * wanted * pieces, grain = row_grain(work);
    const int64_t team = team_size(tasks, grain);
    const Workspaces<T> workspaces(team, RowScores<T>::numbers(s_));
    parallel_for_team(team, tasks, grain, [&](int64_t member, int64_t begin, int64_t end) HWY_ATTR {
      Workspace<T> workspace = workspaces.at(member);
      RowScores<T> scores(s_, mask_and_bias_, workspace);
      for (int64_t task = begin; task < end; ++task) {
        piece(task / pieces / wanted, task / pieces % wanted, task % pieces * kMostRows, scores);
      }
    });
  }

 private:
  void piece(int64_t b, int64_t slot, int64_t first, RowScores<T>& scores) const {
    const int64_t h = heads_[static_cast<std::size_t>(slot)];
    std::vector<RowQuery> queries;
    for (int64_t i = first; i < std::min(first + kMostRows, rows_); ++i) {
      queries.push_back({h, a_.weight_rows == nullptr ? i : a_.weight_rows[i]});
    }
    T* weights = a_.weights + ((b * static_cast<int64_t>(heads_.size()) + slot) * rows_ + first) * s_.keys;
    std::fill(weights, weights + static_cast<int64_t>(queries.size()) * s_.keys, T(0));
    scores.take_queries(b, queries, a_.q);
    const Interval seen = scores.keys_seen();
    for (int64_t block = seen.begin / kKeyBlock * kKeyBlock; block < seen.end; block += kKeyBlock) {
      scores.multiply(a_.k, block);
      for (std::size_t i = 0; i < queries.size(); ++i) {
        const Interval keys = scores.finish_row(i);
        const T logsumexp = a_.logsumexp[(b * s_.heads + h) * s_.queries + queries[i].t];
        if (logsumexp == -std::numeric_limits<T>::infinity()) continue;
        const Vec<T> shift = broadcast(logsumexp * kLog2e<T>);
        map_range<T>(
            0, keys.size(), weights + static_cast<int64_t>(i) * s_.keys + block + keys.begin,
            [=](auto v) HWY_ATTR { return exp2_of(hn::Sub(v, shift)); },
            static_cast<const T*>(scores.row(i) + keys.begin));
      }
    }
    for (std::size_t i = 0; i < queries.size(); ++i) normalize(weights + static_cast<int64_t>(i) * s_.keys);
  }

  /// Makes the row's sum 1: the rounding of a large logsumexp is a factor of all its weights.
  void normalize(T* row) const {
    double sums[8] = {}, sum = 0;
    for (int64_t s = 0; s < s_.keys; ++s) sums[s % 8] += static_cast<double>(row[s]);
    for (const double part : sums) sum += part;
    if (!(sum > 0)) return;
    const Vec<T> inverse = broadcast(static_cast<T>(1 / sum));
    map_range<T>(
        0, s_.keys, row, [=](auto v) HWY_ATTR { return hn::Mul(v, inverse); }, static_cast<const T*>(row));
  }

  const AttentionShape& s_;
  const ForwardArgs<T>& a_;
  const MaskAndBias<T>& mask_and_bias_;
  std::vector<int64_t> heads_;  // those whose weights are wanted
  int64_t rows_;                // queries of each
};

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
