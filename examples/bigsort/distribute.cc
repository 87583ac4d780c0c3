// Phase 1: values go to the rank of their range, a part of the input after the other.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "phases.h"

namespace bigsort {

namespace {

class Source {
  public:
    explicit Source(const Job& job) : options_(job.options) {
        if (options_.input.empty()) return;
        file_ = open(options_.input.c_str(), O_RDONLY | O_CLOEXEC);
        if (file_ < 0) throw FileError("open", options_.input, errno);
    }
    ~Source() {
        if (file_ >= 0) close(file_);
    }
    // Values [begin, begin + values.size()) of all.
    void read(std::uint64_t begin, std::vector<Value>& values) {
        if (file_ < 0) {
            for (std::size_t i = 0; i < values.size(); ++i)
                values[i] = made_value(options_.seed, begin + i, options_.distribution);
            return;
        }
        if (lseek(file_, off_t(begin * sizeof(Value)), SEEK_SET) < 0)
            throw FileError("read", options_.input, errno);
        read_all(file_, options_.input, values.data(), values.size() * sizeof(Value));
    }

  private:
    const Options& options_;
    int file_ = -1;
};

// The ranges of the ranks are equal parts of the unsigned 64-bit integers.
int rank_of(Value value, int ranks) {
    return int((static_cast<unsigned __int128>(value) * unsigned(ranks)) >> 64);
}

class Exchange {
  public:
    explicit Exchange(const Job& job)
        : job_(job),
          send_counts_(job.ranks_count),
          receive_counts_(job.ranks_count),
          send_places_(job.ranks_count),
          receive_places_(job.ranks_count) {}

    // Returns what the others, and this rank itself, have for this rank.
    const std::vector<Value>& run(const std::vector<Value>& values) {
        fill_bins(values);
        MPI_Alltoall(send_counts_.data(), 1, MPI_INT, receive_counts_.data(), 1, MPI_INT, job_.ranks);
        int received = 0;
        for (int i = 0; i < job_.ranks_count; ++i) {
            receive_places_[i] = received;
            received += receive_counts_[i];
        }
        received_.resize(std::size_t(received));
        MPI_Alltoallv(binned_.data(), send_counts_.data(), send_places_.data(), MPI_UINT64_T,
                      received_.data(), receive_counts_.data(), receive_places_.data(), MPI_UINT64_T,
                      job_.ranks);
        return received_;
    }

  private:
    void fill_bins(const std::vector<Value>& values) {
        std::fill(send_counts_.begin(), send_counts_.end(), 0);
        for (const Value value : values) ++send_counts_[rank_of(value, job_.ranks_count)];
        for (int i = 0, sum = 0; i < job_.ranks_count; sum += send_counts_[i++]) send_places_[i] = sum;
        std::vector<int> next = send_places_;
        binned_.resize(values.size());
        for (const Value value : values)
            binned_[std::size_t(next[rank_of(value, job_.ranks_count)]++)] = value;
    }

    const Job& job_;
    std::vector<int> send_counts_, receive_counts_, send_places_, receive_places_;
    std::vector<Value> binned_, received_;
};

}  // namespace

Bin distribute(const Job& job) {
    Bin bin;
    bin.path = job.temporary->folder() + "/bin";
    job.temporary->name(bin.path);
    const int file = open(bin.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) throw FileError("open", bin.path, errno);
    Source source(job);
    Exchange exchange(job);
    const std::uint64_t ranks = std::uint64_t(job.ranks_count), rank = std::uint64_t(job.rank);
    const std::uint64_t share = job.values_count / ranks, rest = job.values_count % ranks;
    std::uint64_t next = rank * share + std::min(rank, rest);
    const std::uint64_t end = next + share + (rank < rest ? 1 : 0);
    const std::uint64_t at_once = job.options.dram_bytes / sizeof(Value);
    const std::uint64_t rounds = (share + (rest > 0 ? 1 : 0) + at_once - 1) / at_once;
    std::vector<Value> values;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        values.resize(std::min(at_once, end - next));
        source.read(next, values);
        next += values.size();
        bin.read.add(values.data(), values.size());
        const std::vector<Value>& mine = exchange.run(values);
        write_all(file, bin.path, mine.data(), mine.size() * sizeof(Value));
        bin.values += mine.size();
        if (job.progress) job.progress(1, double(round + 1) / double(rounds));
    }
    if (close(file) != 0) throw FileError("close", bin.path, errno);
    return bin;
}

}  // namespace bigsort
