// A Communicator over MPI: the only file that includes mpi.h. Sums use messages between pairs, not MPI's
// reductions, whose order of summation may change from call to call: each process receives its part of the
// numbers from all others, adds up in the order of ranks, and sends the sum to all (a reduce-scatter and an
// all-gather). Every process sends 2 (N - 1) / N of the bytes.
#define OMPI_SKIP_MPICXX 1
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "heed/error.h"
#include "mpi/mpi_thread.h"
#include "mpi/processes.h"

namespace heed::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kDefaultTimeout = 1800;  // seconds
// MPI counts are ints, and buffers of messages cost memory: longer ones are sent in pieces of at most this.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 26;
constexpr int kTag = 1;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(fmt::format("processes: {} failed: {} (a peer may have died)", what,
                          text.substr(0, static_cast<std::size_t>(length))));
}

double timeout_seconds() {
  const char* text = std::getenv("HEED_PEER_TIMEOUT");
  if (text == nullptr) return kDefaultTimeout;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0))
    throw Error(fmt::format("HEED_PEER_TIMEOUT: expected seconds above 0, got \"{}\"", text));
  return seconds;
}

/// Messages that are on their way. Used on the worker's thread only.
class Messages {
 public:
  Messages(const std::atomic<int>& end_status, double timeout) : end_status_(end_status), timeout_(timeout) {}

  void send(const void* from, std::int64_t bytes, int to) {
    for (std::int64_t at = 0; at < bytes; at += kMostBytes) {
      check(MPI_Isend(static_cast<const char*>(from) + at, piece(bytes, at), MPI_BYTE, to, kTag,
                      MPI_COMM_WORLD, &add(to)),
            "sending");
    }
    sent_ += bytes;
  }
  void receive(void* to, std::int64_t bytes, int from) {
    for (std::int64_t at = 0; at < bytes; at += kMostBytes) {
      check(MPI_Irecv(static_cast<char*>(to) + at, piece(bytes, at), MPI_BYTE, from, kTag, MPI_COMM_WORLD,
                      &add(from)),
            "receiving");
    }
  }
  /// Waits without taking a processor from those who compute.
  void wait() {
    const Clock::time_point begin = Clock::now();
    for (;;) {
      int done = 0;
      check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
            "waiting for messages");
      if (done != 0) break;
      if (end_status_ >= 0) MPI_Abort(MPI_COMM_WORLD, end_status_);
      if (std::chrono::duration<double>(Clock::now() - begin).count() > timeout_) give_up();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    requests_.clear();
    peers_.clear();
  }
  std::int64_t sent() const { return sent_; }

 private:
  static int piece(std::int64_t bytes, std::int64_t at) {
    return static_cast<int>(std::min(bytes - at, kMostBytes));
  }
  MPI_Request& add(int peer) {
    requests_.push_back(MPI_REQUEST_NULL);
    peers_.push_back(peer);
    return requests_.back();
  }
  [[noreturn]] void give_up() {
    std::vector<int> silent;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      int done = 0;
      MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
      if (done == 0 && std::find(silent.begin(), silent.end(), peers_[i]) == silent.end())
        silent.push_back(peers_[i]);
    }
    throw Error(fmt::format(
        "processes: expected an answer within {:g} s, got none from process {} (it hangs, or its host or the "
        "network does; HEED_PEER_TIMEOUT=SECONDS waits longer)",
        timeout_, fmt::join(silent, ", ")));
  }

  const std::atomic<int>& end_status_;
  double timeout_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // of each request
  std::atomic<std::int64_t> sent_{0};
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Launch& launch, const std::string& version)
      : messages_(end_status_, timeout_seconds()),
        worker_([this, &launch] { begin(launch); }, [] { MPI_Finalize(); }) {
    check_byte_order();
    check_same(*this, "processes", "build of heed", build_identity(version));
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<PendingOperation> start_sum(SharedFloats floats) override {
    return start(floats, [this, values = floats.values] {
      sum_of_part(values);
      gather_of_parts(values);
    });
  }
  std::unique_ptr<PendingOperation> start_sum_of_part(SharedFloats floats) override {
    return start(floats, [this, values = floats.values] { sum_of_part(values); });
  }
  std::unique_ptr<PendingOperation> start_gather_of_parts(SharedFloats floats) override {
    return start(floats, [this, values = floats.values] { gather_of_parts(values); });
  }

  void broadcast(std::span<std::byte> bytes) override {
    worker_.start([&] { pass_down(bytes); }, nullptr)->wait();
  }
  std::vector<std::string> gather(std::string_view bytes) override {
    std::vector<std::string> all;
    worker_.start([&] { all = gather_of_bytes(bytes); }, nullptr)->wait();
    return all;
  }
  Traffic traffic() const override { return {messages_.sent(), nanoseconds_ * 1e-9}; }
  void end_all(int status) override {
    end_status_ = status;
    worker_.start([status] { MPI_Abort(MPI_COMM_WORLD, status); }, nullptr);
    std::this_thread::sleep_for(std::chrono::seconds(5));  // until the launcher ends this process
  }

 private:
  void begin(const Launch& launch) {
    int given = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "starting MPI");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "starting MPI");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "starting MPI");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "starting MPI");
    if (size_ == launch.size) return;
    throw Error(fmt::format(
        "processes: expected {}, as {} says, got {} from MPI (start heed with the launcher of {}, "
        "with which it was built)",
        launch.size, launch.variable, size_, library()));
  }
  std::unique_ptr<PendingOperation> start(const SharedFloats& floats, std::function<void()> operation) {
    return worker_.start(
        [this, operation = std::move(operation)] {
          const Clock::time_point begin = Clock::now();
          operation();
          nanoseconds_ += std::chrono::nanoseconds(Clock::now() - begin).count();
        },
        floats.owner);
  }
  // Messages begin with their lengths as numbers, which other byte orders would read wrong.
  void check_byte_order() {
    constexpr std::uint64_t kOrder = 0x0102030405060708;
    std::vector<std::uint64_t> theirs(static_cast<std::size_t>(size_), kOrder);
    worker_.start([&] { exchange(kOrder, theirs); }, nullptr)->wait();
    for (std::size_t r = 0; r < theirs.size(); ++r) {
      if (theirs[r] != theirs[0])
        throw Error(fmt::format(
            "processes: expected the same byte order in all processes, got another in process {}", r));
    }
  }

  std::span<float> part(std::span<float> values, int rank) const {
    const auto [begin, end] = part_of(static_cast<std::int64_t>(values.size()), rank, size_);
    return values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
  static std::int64_t bytes_of(std::span<float> values) {
    return static_cast<std::int64_t>(values.size_bytes());
  }
  void sum_of_part(std::span<float> values) {
    const std::span<float> own = part(values, rank_);
    received_.resize(static_cast<std::size_t>(size_) * own.size());
    const auto from = [&](int r) { return received_.data() + static_cast<std::size_t>(r) * own.size(); };
    for (int i = 1; i < size_; ++i) {  // begins at another peer on every process
      const int source = (rank_ + size_ - i) % size_, target = (rank_ + i) % size_;
      messages_.receive(from(source), bytes_of(own), source);
      messages_.send(part(values, target).data(), bytes_of(part(values, target)), target);
    }
    messages_.wait();
    std::copy(own.begin(), own.end(), from(rank_));
    std::copy_n(from(0), own.size(), own.begin());
    for (int r = 1; r < size_; ++r) {
      const float* addend = from(r);
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += addend[i];
    }
  }
  void gather_of_parts(std::span<float> values) {
    const std::span<float> own = part(values, rank_);
    for (int i = 1; i < size_; ++i) {
      const int source = (rank_ + size_ - i) % size_, target = (rank_ + i) % size_;
      messages_.receive(part(values, source).data(), bytes_of(part(values, source)), source);
      messages_.send(own.data(), bytes_of(own), target);
    }
    messages_.wait();
  }
  // Along a binomial tree: who has the bytes passes them on, in rounds.
  void pass_down(std::span<std::byte> bytes) {
    const auto count = static_cast<std::int64_t>(bytes.size());
    for (int reached = 1; reached < size_; reached *= 2) {
      if (rank_ < reached && rank_ + reached < size_) messages_.send(bytes.data(), count, rank_ + reached);
      if (rank_ >= reached && rank_ < 2 * reached) messages_.receive(bytes.data(), count, rank_ - reached);
      messages_.wait();
    }
  }
  void exchange(std::uint64_t own, std::vector<std::uint64_t>& theirs) {
    for (int i = 1; i < size_; ++i) {
      const int source = (rank_ + size_ - i) % size_, target = (rank_ + i) % size_;
      messages_.receive(&theirs[static_cast<std::size_t>(source)], sizeof own, source);
      messages_.send(&own, sizeof own, target);
    }
    messages_.wait();
    theirs[static_cast<std::size_t>(rank_)] = own;
  }
  std::vector<std::string> gather_of_bytes(std::string_view bytes) {
    std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size_));
    exchange(bytes.size(), lengths);
    std::vector<std::string> all(lengths.size());
    for (int i = 1; i < size_; ++i) {
      const int source = (rank_ + size_ - i) % size_, target = (rank_ + i) % size_;
      std::string& theirs = all[static_cast<std::size_t>(source)];
      theirs.resize(lengths[static_cast<std::size_t>(source)]);
      messages_.receive(theirs.data(), static_cast<std::int64_t>(theirs.size()), source);
      messages_.send(bytes.data(), static_cast<std::int64_t>(bytes.size()), target);
    }
    messages_.wait();
    all[static_cast<std::size_t>(rank_)] = bytes;
    return all;
  }

  int rank_ = 0, size_ = 1;
  std::atomic<int> end_status_{-1};  // from 0 on: the job ends with it
  std::atomic<std::int64_t> nanoseconds_{0};
  Messages messages_;
  std::vector<float> received_;
  MpiThread worker_;  // last: its thread uses the others
};

}  // namespace

std::string library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text.substr(0, text.find_first_of(",\n"));  // Open MPI goes on with who built it
}

std::unique_ptr<Communicator> join_processes(const Launch& launch, const std::string& version) {
  if (launch.size == 1) return std::make_unique<SingleProcess>();
  return std::make_unique<MpiCommunicator>(launch, version);
}

}  // namespace heed::mpi
