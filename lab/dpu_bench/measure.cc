#include "dpu_bench/measure.h"

#include <algorithm>

#include "dpu_bench/buffers.h"

namespace longshore::dpu_bench {
namespace {

// Arithmetic in small pieces until the time is over; fits in a first-level cache.
void work_us(double us) {
    static double values[512] = {1.0};
    for (const double end = now_us() + us; now_us() < end;) {
        for (double& value : values) value = 0.75 * value + 0.5;
        asm volatile("" : : "r"(values) : "memory");
    }
}

class Measurement {
  public:
    Measurement(const Session& session, Pattern pattern, Assignment assignment, std::size_t bytes)
        : session_(session), ranks_(session.ranks), buffers_(pattern, ranks_.shape(), ranks_.rank(), bytes) {
        const int worker = ranks_.rank() - ranks_.shape().hosts;
        if (ranks_.is_worker())
            staged_ = worker_work(pattern, assignment, ranks_.shape(), worker, bytes);
        else
            reference_ = host_work(pattern, ranks_.shape(), ranks_.rank(), bytes);
        session.mover.connect(ranks_.exchange(session.mover.expose(buffers_.data(), buffers_.size())));
    }

    // Both forms of the pattern, each from poisoned memory.
    bool verify() {
        prepare();
        carry_out(reference_);
        ranks_.meet();
        if (!is_right("reference")) return false;
        prepare();
        carry_out(staged_);
        ranks_.meet();
        if (session_.spoilt_byte && ranks_.rank() == ranks_.shape().hosts - 1)
            buffers_.spoil(*session_.spoilt_byte);
        return is_right("staged");
    }

    Times time_reference() {
        const auto one = [&] {
            const double start = now_us();
            carry_out(reference_);
            const double taken = now_us() - start;
            if (!ranks_.is_worker()) ranks_.meet_own_kind();
            return taken;
        };
        const Loop loop = run(one);
        const std::vector<double> taken = slowest(loop, !ranks_.is_worker());
        Times times;
        times.reference = mean(taken);
        times.reference_median = median(taken);
        times.reference_loop = slowest(ranks_.is_worker() ? 0 : loop.each);
        return times;
    }

    // Hosts compute as long as the reference took; workers move the data meanwhile; all meet.
    int time_staged(Times* times) {
        const double length = ranks_.from_root(times->reference);
        const auto one = [&] {
            const double start = now_us();
            if (ranks_.is_worker())
                carry_out(staged_);
            else
                compute(length);
            const double taken = now_us() - start;
            ranks_.meet();
            return taken;
        };
        const Loop loop = run(one);
        const std::vector<double> moving = slowest(loop, ranks_.is_worker());
        const std::vector<double> computing = slowest(loop, !ranks_.is_worker());
        times->pure_comm = mean(moving);
        times->pure_comm_median = median(moving);
        times->compute = mean(computing);
        times->compute_median = median(computing);
        times->total = slowest(loop.each);
        return int(loop.taken.size());
    }

    bool is_right(const char* what) {
        std::optional<std::string> wrong = buffers_.check(round_);
        if (wrong) wrong = std::string("wrong data, ") + what + ": " + *wrong;
        return !ranks_.any_failure(wrong);
    }

  private:
    struct Loop {
        std::vector<double> taken;  // by this rank in each iteration, without the barrier
        double each = 0;            // the whole loop over its iterations
    };

    // By iteration, over the ranks that take part. On rank 0.
    std::vector<double> slowest(const Loop& loop, bool takes_part) const {
        return ranks_.max_of(takes_part ? loop.taken : std::vector<double>(loop.taken.size(), 0.0));
    }
    double slowest(double mine) const { return ranks_.max_of({mine})[0]; }

    void prepare() {
        buffers_.prepare(++round_);
        ranks_.meet();
    }

    void carry_out(const Work& work) {
        for (const Phase& phase : work) {
            if (phase.workers_meet_first) ranks_.meet_own_kind();
            for (const Transfer& transfer : phase.transfers) {
                if (transfer.kind == Transfer::Kind::kRead)
                    session_.mover.read(transfer.peer, transfer.remote_offset, transfer.local_offset,
                                        transfer.bytes);
                else
                    session_.mover.write(transfer.peer, transfer.remote_offset, transfer.local_offset,
                                         transfer.bytes);
            }
            session_.mover.wait_all();
        }
    }

    void compute(double us) const {
        if (session_.compute == Compute::kWork)
            work_us(us);
        else
            sleep_us(us);
    }

    // The warm-up tells how many iterations the time limit allows.
    template <typename Iteration>
    Loop run(const Iteration& one) {
        const Options& options = session_.options;
        ranks_.meet();
        double start = now_us();
        for (int i = 0; i < options.warmup; ++i) one();
        const double each = ranks_.from_root((now_us() - start) / options.warmup);
        int count = options.iterations;
        if (options.time_limit_s > 0 && each * count > options.time_limit_s * 1e6)
            count = std::max(1, int(options.time_limit_s * 1e6 / each));
        Loop loop;
        loop.taken.reserve(std::size_t(count));
        ranks_.meet();
        start = now_us();
        for (int i = 0; i < count; ++i) loop.taken.push_back(one());
        loop.each = (now_us() - start) / count;
        ranks_.meet();
        return loop;
    }

    const Session& session_;
    const Ranks& ranks_;
    Buffers buffers_;
    Work staged_, reference_;
    std::uint64_t round_ = 0;
};

}  // namespace

std::optional<Row> measure(const Session& session, Pattern pattern, Assignment assignment,
                           std::size_t bytes) {
    Row row = {pattern, assignment, bytes, {}, session.options.iterations};
    for (int i = 0; i < session.options.runs; ++i) {
        Measurement measurement(session, pattern, assignment, bytes);
        if (!measurement.verify()) return std::nullopt;
        Times times = measurement.time_reference();
        row.iterations = std::min(row.iterations, measurement.time_staged(&times));
        if (!measurement.is_right("after the timed loops")) return std::nullopt;
        row.runs.push_back(times);
        session.ranks.meet();  // nobody frees what others still look at
    }
    return row;
}

}  // namespace longshore::dpu_bench
