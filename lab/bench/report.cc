#include "bench/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "bench/statistics.h"

namespace longshore::bench {

namespace {

constexpr int kBarWidth = 30;

bool is_counted(const Measured& measured) {
    return measured.contender.is_longshore && measured.moved_bytes > 0 &&
           ratio(measured.service_bytes, measured.moved_bytes) >= kCountedShareMin;
}

const Measured* host_of(const Row& row) {
    for (const Measured& measured : row.results)
        if (!measured.contender.is_longshore && !measured.contender.is_limit) return &measured;
    return nullptr;
}

const Measured* limit_of(const Row& row) {
    for (const Measured& measured : row.results)
        if (measured.contender.is_limit) return &measured;
    return nullptr;
}

// "1.53x" for one that takes half as long again as the reference.
std::string against(const Measured* reference, const Measured& measured) {
    if (!reference || reference == &measured) return kNotTaken;
    return fmt::format("{:.2f}x", ratio(median(measured.pure), median(reference->pure)));
}

std::string against_host(const Row& row, const Measured& measured) {
    return against(measured.contender.is_longshore ? host_of(row) : nullptr, measured);
}

std::string service_share(const Measured& measured, bool says_counted = true) {
    if (!measured.contender.is_longshore) return kNotTaken;
    if (measured.offloaded_calls == 0) return "by MPI";
    return fmt::format("{:.1f}{}", 100 * ratio(measured.service_bytes, measured.moved_bytes),
                       says_counted && is_counted(measured) ? " counted" : "");
}

double work_stretch(const Measured& measured) {
    return ratio(median(measured.compute), median(measured.compute_alone));
}

std::string copy_percent(const Row& row) {
    if (row.service_rate.empty() || row.memcpy_rate.empty()) return kNotTaken;
    return fmt::format("{:.0f}", 100 * ratio(median(row.service_rate), median(row.memcpy_rate)));
}

// Limits have a column of their own, and no overlap.
bool is_narrow(const Options& options, const Collective& collective) {
    return options.narrow && !options.copy_limit && collective.nonblocking;
}

void print_narrow_row(const Row& row, const Measured& measured, int name_columns) {
    fmt::print("{:>6} {:<{}} {:>9.2f} {:>7} {:>9.2f} {:>8.1f} {:>7.2f} {:>8.2f}  {}\n", show_size(row.bytes),
               measured.contender.name, name_columns, median(measured.pure), against_host(row, measured),
               median(measured.overall), overlap_percent(median(measured.exposed), median(measured.pure)),
               median(measured.post), median(measured.wait), service_share(measured, false));
}

}  // namespace

int name_width(const Options& options) {
    std::size_t width = options.copy_limit ? 10 : 9;
    for (const std::string& name : options.algorithms) width = std::max(width, name.size());
    return int(width);
}

std::string median_or_dash(const std::vector<double>& samples) {
    return samples.empty() ? kNotTaken : fmt::format("{:.2f}", median(samples));
}

nlohmann::json median_or_null(const std::vector<double>& samples) {
    return samples.empty() ? nlohmann::json() : nlohmann::json(median(samples));
}

nlohmann::json samples_or_null(const std::vector<double>& samples) {
    return samples.empty() ? nlohmann::json() : nlohmann::json(samples);
}

std::string time_left(double elapsed_s, int done, int total) {
    if (done == 0) return "";
    const double left_s = elapsed_s / done * (total - done);
    return left_s < 100 ? fmt::format(", {:.0f} s left", left_s)
                        : fmt::format(", {:.0f} min left", left_s / 60);
}

Progress::Progress(ProgressStyle style, int rows_total) : style_(style), rows_total_(rows_total) {
    if (style_ == ProgressStyle::kAuto)
        style_ = isatty(STDERR_FILENO) ? ProgressStyle::kBar : ProgressStyle::kLines;
}

Progress::~Progress() {
    clear();
}

bool Progress::is_bar() const {
    return style_ == ProgressStyle::kBar || style_ == ProgressStyle::kBarAmongRows;
}

// A launcher hands stdout and stderr on in pipes of their own: a bar in one comes before or after a row in
// the other.
FILE* Progress::stream() const {
    return style_ == ProgressStyle::kBarAmongRows ? stdout : stderr;
}

void Progress::clear() {
    if (is_bar()) fmt::print(stream(), "\r\x1b[K");
}

void Progress::start_row(const std::string& what) {
    what_ = what;
    if (!is_bar()) return;
    const int filled = kBarWidth * rows_done_ / std::max(rows_total_, 1);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    fmt::print(stream(), "\r\x1b[K[{:#<{}}{:.<{}}] {}/{} {}{}", "", filled, "", kBarWidth - filled,
               rows_done_ + 1, rows_total_, what_, time_left(elapsed.count(), rows_done_, rows_total_));
    std::fflush(stream());
}

void Progress::end_row(double seconds) {
    ++rows_done_;
    clear();
    if (style_ == ProgressStyle::kLines)
        fmt::print(stderr, "{}/{} {} {:.1f} s\n", rows_done_, rows_total_, what_, seconds);
}

void print_header(const Collective& collective, const Options& options, int ranks) {
    fmt::print("\n# {}, {} ranks", collective.name, ranks);
    if (collective.nonblocking) fmt::print(", compute: {}", to_string(options.compute));
    if (options.buffers > 1) fmt::print(", {} pairs of buffers", options.buffers);
    fmt::print("; us of an iteration, maximum of ranks\n");
    if (is_narrow(options, collective)) {
        fmt::print("{:>6} {:<{}} {:>9} {:>7} {:>9} {:>8} {:>7} {:>8}  {}\n", "bytes", "contender",
                   name_width(options), "pure", "vs host", "overall", "overlap%", "post", "wait", "SP %");
        std::fflush(stdout);
        return;
    }
    fmt::print("{:>6} {:<{}} {:>9} {:>9} {:>9} {:>9} {:>8}", "bytes", "contender", name_width(options),
               "pure min", "median", "p99", "max", "vs host");
    if (options.copy_limit) fmt::print(" {:>8}", "vs limit");
    if (collective.nonblocking) {
        fmt::print(" {:>9} {:>6} {:>6} {:>9} {:>9} {:>8} {:>7} {:>7} {:>8} {:>8} {:>8}", "t_sp", "/pure",
                   "copy%", "compute", "overall", "overlap%", "post", "mean", "wait", "mean", "cpu");
        if (options.compute == Compute::kWork) fmt::print(" {:>7}", "work x");
    }
    fmt::print("  {}\n", "SP %");
    std::fflush(stdout);
}

void print_row(const Row& row, const Options& options) {
    for (const Measured& measured : row.results) {
        if (is_narrow(options, *row.collective)) {
            print_narrow_row(row, measured, name_width(options));
            continue;
        }
        const Summary pure = summarize(measured.pure);
        fmt::print("{:>6} {:<{}} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>8}", show_size(row.bytes),
                   measured.contender.name, name_width(options), pure.min, pure.median, pure.p99, pure.max,
                   against_host(row, measured));
        if (options.copy_limit) fmt::print(" {:>8}", against(limit_of(row), measured));
        if (measured.contender.is_limit) {
            fmt::print("\n");  // it computes nothing on the way
            continue;
        }
        if (row.collective->nonblocking) {
            fmt::print(
                " {:>9} {:>6}", median_or_dash(row.t_sp),
                row.t_sp.empty() ? kNotTaken : fmt::format("{:.2f}", ratio(median(row.t_sp), pure.median)));
            fmt::print(" {:>6}", copy_percent(row));
            fmt::print(" {:>9.2f} {:>9.2f} {:>8.1f} {:>7.2f} {:>7.2f} {:>8.2f} {:>8.2f} {:>8.1f}",
                       median(measured.compute), median(measured.overall),
                       overlap_percent(median(measured.exposed), pure.median), median(measured.post),
                       median(measured.post_mean), median(measured.wait), median(measured.wait_mean),
                       median(measured.cpu));
            if (options.compute == Compute::kWork) fmt::print(" {:>7.3f}", work_stretch(measured));
        }
        fmt::print("  {}\n", service_share(measured));
    }
    std::fflush(stdout);
}

void write_row(const Row& row, const Options& options, JsonLines& json) {
    for (const Measured& measured : row.results) {
        const Summary pure = summarize(measured.pure);
        nlohmann::json object = {{"type", "row"},
                                 {"collective", row.collective->name},
                                 {"bytes", row.bytes},
                                 {"contender", measured.contender.name},
                                 {"iterations_per_turn", row.iterations},
                                 {"buffers", options.buffers},
                                 {"pure_us", measured.pure},
                                 {"pure_median_us", pure.median},
                                 {"pure_p99_us", pure.p99}};
        if (const Measured* limit = limit_of(row))
            object["vs_limit"] = ratio(pure.median, median(limit->pure));
        if (row.collective->nonblocking && !measured.contender.is_limit) {
            object["compute"] = to_string(options.compute);
            object["compute_length_us"] = measured.compute_length;
            object["t_sp_us"] = samples_or_null(row.t_sp);
            object["t_sp_seen_us"] = samples_or_null(row.t_sp_seen);
            object["service_bytes_per_us"] = samples_or_null(row.service_rate);
            object["memcpy_bytes_per_us"] = samples_or_null(row.memcpy_rate);
            object["overall_us"] = samples_or_null(measured.overall);
            object["exposed_us"] = samples_or_null(measured.exposed);
            object["post_us"] = samples_or_null(measured.post);
            object["wait_us"] = samples_or_null(measured.wait);
            object["post_mean_us"] = samples_or_null(measured.post_mean);
            object["wait_mean_us"] = samples_or_null(measured.wait_mean);
            object["compute_us"] = samples_or_null(measured.compute);
            object["compute_alone_us"] = samples_or_null(measured.compute_alone);
            object["cpu_us"] = samples_or_null(measured.cpu);
            object["overlap_percent"] = overlap_percent(median(measured.exposed), pure.median);
        }
        if (measured.contender.is_longshore) {
            object["cooperative"] = options.cooperative;
            object["service_share"] = ratio(measured.service_bytes, measured.moved_bytes);
            object["offloaded_share_of_calls"] = ratio(measured.offloaded_calls, measured.calls);
            object["counted"] = is_counted(measured);
        }
        json.write(object);
    }
}

}  // namespace longshore::bench
