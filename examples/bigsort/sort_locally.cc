// Phase 2: cycles of page sorts and merges through temporary files, written by the rank or by its peer.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <numeric>

#include "merge.h"
#include "patience.h"
#include "phases.h"
#include "task_sink.h"

namespace bigsort {

namespace {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

class LocalSorter {
  public:
    LocalSorter(const Job& job, const Bin& bin, LocalSort& result)
        : job_(job),
          layout_(result.layout),
          result_(result),
          folder_(job.temporary->folder()),
          bin_path_(bin.path),
          dram_(layout_.fan_in * layout_.page_values) {}

    ~LocalSorter() {
        if (bin_ >= 0) close(bin_);
    }

    void run() {
        bin_ = open(bin_path_.c_str(), O_RDONLY | O_CLOEXEC);
        if (bin_ < 0) throw FileError("open", bin_path_, errno);
        make_sinks();
        double before = now_s();
        std::uint64_t first = job_.options.offload == Offload::kAuto ? try_both() : 0;
        Sink& sink = result_.offloaded ? static_cast<Sink&>(*other_) : *direct_;
        for (int cycle = 0; cycle < layout_.cycles(); ++cycle) {
            write_stretch({cycle, first, layout_.files(cycle)}, sink);
            first = 0;
            if (cycle == 0) unlink(bin_path_.c_str());
            result_.cycle_s.push_back(now_s() - before);
            before = now_s();
        }
        sink.finish();
        if (other_) result_.tasks = other_->counters();
        if (!result_.cycle_s.empty()) result_.cycle_s.back() += now_s() - before;
    }

  private:
    void make_sinks();
    std::uint64_t try_both();
    void try_one(const Stretch& stretch, Sink& sink, Way& way);
    void write_stretch(const Stretch& stretch, Sink& sink);
    void wait_closed(int cycle, std::uint64_t file);
    void sort_pages(std::uint64_t file, std::vector<Run>& runs);
    void open_runs(int cycle, std::uint64_t file, std::vector<Run>& runs);
    void close_runs(std::vector<Run>& runs);
    void show_progress() {
        ++pages_written_;
        if (job_.progress && pages_written_ % 64 == 0)
            job_.progress(2, double(pages_written_) / double(layout_.page_writes()));
    }

    const Job& job_;
    const Layout layout_;
    LocalSort& result_;
    const std::string folder_, bin_path_;
    std::vector<Value> dram_;  // one block of `fan_in` pages
    std::unique_ptr<DirectSink> direct_;
    std::unique_ptr<AheadSink> other_;  // whom the rank may leave the writing to
    int bin_ = -1;
    std::uint64_t pages_written_ = 0;
};

void LocalSorter::make_sinks() {
    direct_ = std::make_unique<DirectSink>(folder_, layout_, job_.temporary);
    result_.offloaded = job_.options.offload == Offload::kMpmd || job_.options.offload == Offload::kTasks;
    if (job_.options.offload == Offload::kNone) return;
    Setup setup;
    setup.layout = layout_;
    setup.files_max = job_.options.files_max;
    setup.offload = job_.options.offload;
    setup.rank = job_.rank;
    const std::string seen = job_.options.peer_temporary + folder_.substr(folder_.rfind('/'));
    if (seen.size() >= sizeof(setup.folder)) throw FileError("use", seen, ENAMETOOLONG);
    std::strcpy(setup.folder, seen.c_str());
    if (job_.peer < 0) {
        other_ = std::make_unique<TaskSink>(setup, folder_, job_.temporary);
        return;
    }
    other_ = std::make_unique<PeerSink>(job_.world, job_.peer, setup, folder_, job_.temporary,
                                        job_.options.peer_limit_s);
}

// Returns the first file of the first cycle that is left.
std::uint64_t LocalSorter::try_both() {
    const Trial trial = make_trial(layout_);
    Way rank, peer;
    for (std::size_t i = 0; i < trial.by_peer.size(); ++i) {
        try_one(trial.by_rank[i], *direct_, rank);
        try_one(trial.by_peer[i], *other_, peer);
    }
    if (!trial.by_peer.empty()) {
        result_.tried = true;
        result_.tried_rank_s = rank.seconds_of_all(layout_);
        result_.tried_peer_s = peer.seconds_of_all(layout_);
        result_.offloaded = result_.tried_peer_s < kTrialGainMin * result_.tried_rank_s;
    }
    other_->tell_decision(result_.offloaded);
    return trial.files();
}

// How long it takes until all is written and closed, and how long the next cycle needs to open and to read a
// file.
void LocalSorter::try_one(const Stretch& stretch, Sink& sink, Way& way) {
    const std::uint64_t pages = layout_.first_page(0, stretch.end) - layout_.first_page(0, stretch.begin);
    double begin = now_s();
    write_stretch(stretch, sink);
    sink.finish();
    way.write_page.push_back((now_s() - begin) / double(pages));

    begin = now_s();
    Run run;
    run.path = file_path(folder_, 0, stretch.begin);
    run.file = open(run.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (run.file < 0) throw FileError("open", run.path, errno);
    run.left_in_file = layout_.values_of(0, stretch.begin);
    run.buffer = dram_.data();
    run.buffer_values = layout_.page_values;
    const bool first = run.refill();
    const double first_read = now_s();
    // The first page of a file that another process has written may cost what opening costs elsewhere.
    std::uint64_t further = 0;
    for (bool more = first; more && (more = run.refill());) ++further;
    way.read_page.push_back((now_s() - first_read) / double(std::max<std::uint64_t>(further, 1)));
    way.open_file.push_back(std::max(0.0, first_read - begin - (further ? way.read_page.back() : 0)));
    close(run.file);
}

void LocalSorter::write_stretch(const Stretch& stretch, Sink& sink) {
    if (stretch.begin == stretch.end) return;
    sink.begin(stretch);
    for (std::uint64_t file = stretch.begin; file < stretch.end; ++file) {
        std::vector<Run> runs;
        if (stretch.cycle == 0)
            sort_pages(file, runs);
        else
            open_runs(stretch.cycle, file, runs);
        Merger merger(runs);
        for (std::uint64_t left = layout_.values_of(stretch.cycle, file); left > 0;) {
            const std::uint64_t values = std::min(left, layout_.page_values);
            merger.take(sink.page(), values);
            sink.put(values);
            left -= values;
            show_progress();
        }
        if (stretch.cycle > 0) close_runs(runs);
    }
}

// Pages that follow each other in the bin become one file: each is sorted in memory, so that the runs have no
// files.
void LocalSorter::sort_pages(std::uint64_t file, std::vector<Run>& runs) {
    const std::uint64_t begin = layout_.first_page(0, file), pages = layout_.pages_of(0, file);
    read_all(bin_, bin_path_, dram_.data(), layout_.values_of(0, file) * sizeof(Value));
    runs.resize(pages);
#pragma omp parallel for schedule(dynamic) num_threads(job_.options.threads) if (job_.options.threads > 1)
    for (std::int64_t i = 0; i < std::int64_t(pages); ++i) {
        Value* const page = &dram_[std::uint64_t(i) * layout_.page_values];
        runs[i].next = page;
        runs[i].end = page + layout_.values_between(begin + i, begin + i + 1);
        std::sort(page, page + (runs[i].end - runs[i].next));
    }
}

void LocalSorter::open_runs(int cycle, std::uint64_t file, std::vector<Run>& runs) {
    const std::uint64_t first = file * layout_.fan_in;
    runs.resize(std::min(layout_.fan_in, layout_.files(cycle - 1) - first));
    for (std::size_t i = 0; i < runs.size(); ++i) {
        Run& run = runs[i];
        // Before it is opened: what another process has not closed yet may not be there.
        if (other_) other_->wait_closed(cycle - 1, first + i);
        run.path = file_path(folder_, cycle - 1, first + i);
        run.file = open(run.path.c_str(), O_RDONLY | O_CLOEXEC);
        if (run.file < 0) throw FileError("open", run.path, errno);
        run.left_in_file = layout_.values_of(cycle - 1, first + i);
        run.buffer = &dram_[i * layout_.page_values];
        run.buffer_values = layout_.page_values;
    }
}

void LocalSorter::close_runs(std::vector<Run>& runs) {
    for (Run& run : runs) {
        close(run.file);
        unlink(run.path.c_str());
    }
}

}  // namespace

// The cycles read as many pages as they write; the first reads from the bin, either way alike.
double Way::seconds_of_all(const Layout& layout) const {
    const double reads = double(layout.page_writes() - layout.pages());
    return double(layout.page_writes()) * median(write_page) + reads * median(read_page) +
           double(layout.files_of_all_cycles()) * median(open_file);
}

LocalSort sort_locally(const Job& job, const Bin& bin) {
    LocalSort result;
    const std::uint64_t page_bytes = job.options.page_bytes;
    result.layout = {bin.values, page_bytes / sizeof(Value), job.options.dram_bytes / page_bytes};
    MPI_Barrier(job.ranks);
    const double begin = now_s();
    LocalSorter(job, bin, result).run();
    result.seconds = now_s() - begin;
    if (const int cycles = result.layout.cycles())
        result.path = file_path(job.temporary->folder(), cycles - 1, 0);
    return result;
}

}  // namespace bigsort
