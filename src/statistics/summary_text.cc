#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "statistics/json.h"
#include "statistics/summary.h"

namespace longshore::statistics {
namespace {

constexpr size_t kColumnsMax = 80;
constexpr std::ptrdiff_t kLinesMax = 40;  // of the text, so that it fits a screen
constexpr size_t kRowsMax = 8;            // of each table and list; fewer where the text would be longer
constexpr size_t kAdviceMin = 2;          // sentences that stand there all the same
constexpr size_t kNamedMax = 3;           // calls that a sentence names
// Tests have no column, but a line of their own (print_tests).
constexpr CallTime kTimeColumns[] = {CallTime::kPosting, CallTime::kBetween, CallTime::kWaiting,
                                     CallTime::kMpi};
constexpr double kServiceShareLow = 0.05;
constexpr double kHiddenShareLow = 0.2;
constexpr double kSystemShareShown = 0.1;  // of the bytes that were copied on nodes
constexpr double kTimeShareShown = 0.01;
constexpr double kMostWait = 0.5;  // a rank that waits less than this share of the longest wait seems late

double mb(uint64_t bytes) {
    return static_cast<double>(bytes) * 1e-6;
}

double ratio(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

uint64_t in_calls_ns(const CallCounts& c) {
    return c.time_ns[static_cast<int>(CallTime::kPosting)] + c.time_ns[static_cast<int>(CallTime::kWaiting)] +
           c.time_ns[static_cast<int>(CallTime::kTesting)] + c.time_ns[static_cast<int>(CallTime::kMpi)];
}

// A sentence, in lines of 80 columns.
void print_line(std::string* out, const std::string& sentence) {
    const std::string first = "longshore: ", next = "longshore:   ";
    std::string line = first;
    bool empty = true;
    for (size_t at = 0; at < sentence.size();) {
        const size_t end = std::min(sentence.find(' ', at), sentence.size());
        const std::string word = sentence.substr(at, end - at);
        if (!empty && line.size() + 1 + word.size() > kColumnsMax) {
            append(out, "%s\n", line.c_str());
            line = next;
            empty = true;
        }
        line += (empty ? "" : " ") + word;
        empty = false;
        at = end + 1;
    }
    append(out, "%s\n", line.c_str());
}

// Why calls were left to the MPI, as a sentence's end, and what changes it; null: nothing to be done, or by
// the user's own wish.
const char* words_for(Reason reason) {
    switch (reason) {
        case Reason::kUnseen:
            return "their communicators were made by calls that Longshore does not follow; make them with "
                   "MPI_Comm_split or MPI_Comm_dup";
        case Reason::kNoGroup:
            return "no group could be made for their communicators; --log info says why";
        case Reason::kSmall:
            return "their messages are too small to gain; 'longshore tune' measures the limit here";
        case Reason::kSnapshot:
            return "in place, and larger than LONGSHORE_SNAPSHOT_BYTES_MAX; raise it, or give them a buffer "
                   "to "
                   "send from";
        case Reason::kSelected:
            return "the table of rules gives them to the MPI; 'longshore tune' measures what is faster here";
        default:
            return nullptr;
    }
}

void advise_on_service(const Summary& summary, const CallCounts& total, std::vector<std::string>* out) {
    const uint64_t moved = total.by_service + total.by_rank;
    if (moved == 0 || ratio(total.by_service, moved) >= kServiceShareLow) return;
    std::string line;
    append(&line, "service processes moved %.1f %% of the bytes, waiting ranks the rest: ",
           100 * ratio(total.by_service, moved));
    const uint64_t between = total.time_ns[static_cast<int>(CallTime::kBetween)];
    const uint64_t waiting = total.time_ns[static_cast<int>(CallTime::kWaiting)];
    if (summary.place.spare == 0)
        line += "no core is spare; start one rank less on each node, so that a service process has a core";
    else if (between < waiting)
        line +=
            "the program waits soon after it posts; wait later, after computing, so that calls can overlap";
    else
        line += "ranks wait before service processes have begun; --log info shows where these run";
    out->push_back(std::move(line));
}

// Why nothing was carried.
std::string why_off(const Summary& summary) {
    if (!summary.wanted) return "offload was off";
    if (summary.size > 1) return "the job was left to its MPI, a line at its beginning says why";
    std::string line = "the job has one rank";
    if (summary.launched != 0)
        append(&line, " of %" PRIu32 " processes: their launcher seems to be that of another MPI",
               summary.launched);
    return line;
}

void advise_on_reasons(const CallCounts& total, std::vector<std::string>* out) {
    for (int r = 0; r < kReasonCount; ++r) {
        const char* words = words_for(static_cast<Reason>(r));
        if (words == nullptr || total.reasons[r] == 0) continue;
        std::string line;
        append(&line, "%" PRIu64 " calls were left to the MPI: %s", total.reasons[r], words);
        out->push_back(std::move(line));
    }
}

// Where blocks of malloc are not shared although they could be, and that costs something.
void advise_on_malloc(const Summary& summary, std::vector<std::string>* out) {
    const MemoryCounts& memory = summary.memory;
    uint64_t by_system = memory.peer_copied + memory.bounced, on_nodes = by_system + memory.mapped;
    for (const ls_service_stats& s : summary.services) {
        by_system += s.bytes_peer_copied + s.bytes_bounced;
        on_nodes += s.bytes_peer_copied + s.bytes_bounced + s.bytes_mapped;
    }
    if (memory.malloc_not_shared == 0 || ratio(by_system, on_nodes) < kSystemShareShown) return;
    std::string line;
    append(&line,
           "blocks of malloc are not shared on %" PRIu64
           " ranks, since %s: %.0f %% of the bytes that were copied on nodes went by way of the system, at "
           "about a third of the speed; remove that cause, or have MPI_Alloc_mem give the buffers of "
           "collectives",
           memory.malloc_not_shared, summary.why_not_shared.c_str(), 100 * ratio(by_system, on_nodes));
    out->push_back(std::move(line));
}

// A figure in five columns, shortened from a hundred thousand on: 0.123, 12.35, 99999, 1234k, 1234M.
std::string shortened(double value, bool whole) {
    std::string out;
    if (value >= 99999.5) {
        const char* unit = "kMGT";
        for (value *= 1e-3; value >= 9999.5 && unit[1] != 0; ++unit) value *= 1e-3;
        append(&out, "%.0f%c", std::min(value, 9999.0), *unit);
        return out;
    }
    const int decimals = whole || value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
    append(&out, "%.*f", decimals, value);
    return out;
}

// What a table or list leaves out.
void print_rest(std::string* out, size_t count, const char* what) {
    if (count != 0) append(out, "longshore: ... and %zu more %s: --stats FILE has all\n", count, what);
}

// A row of a table: a name, then figures of six columns each.
class Row {
  public:
    Row(int columns, const char* name) { append(&line_, "longshore: %-*s", columns, name); }
    void add(double value, bool whole, int columns = 6) {
        append(&line_, "%*s", columns, shortened(value, whole).c_str());
    }
    void add_percent(uint64_t part, uint64_t all) {
        if (all == 0)
            append(&line_, "%6s", "-");
        else
            append(&line_, "%6.0f", 100 * ratio(part, all));
    }
    void print(std::string* out) const { append(out, "%s\n", line_.c_str()); }

  private:
    std::string line_;
};

constexpr int kNameColumns = 20;

void print_times(std::string* out, const char* name, const CallCounts& c, double ranks) {
    Row row(kNameColumns, name);
    row.add(static_cast<double>(c.calls), true);
    row.add(static_cast<double>(c.offloaded), true);
    row.add(mb(c.bytes + c.bytes_host), false);
    row.add_percent(hidden_bytes(c), c.by_service + c.by_rank);
    for (const CallTime kind : kTimeColumns)
        row.add(static_cast<double>(c.time_ns[static_cast<int>(kind)]) * 1e-9 / ranks, false);
    row.print(out);
}

void print_movers(std::string* out, const char* name, const CallCounts& c) {
    Row row(kNameColumns, name);
    for (const uint64_t bytes : {hidden_bytes(c), c.by_service_waited, c.by_rank, own_bytes(c)})
        row.add(mb(bytes), false);
    row.print(out);
}

// The calls in which ranks were longest, in two tables: their times, and who moved the bytes of those that
// were offloaded.
void print_tables(std::string* out, const Counts& counts, double ranks, size_t rows_max) {
    std::vector<int> rows;
    for (int i = 0; i < kCallCount; ++i)
        if (counts.call[i].calls != 0) rows.push_back(i);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](int a, int b) { return in_calls_ns(counts.call[a]) > in_calls_ns(counts.call[b]); });
    if (rows.empty()) return;
    const size_t more = rows.size() - std::min(rows.size(), rows_max);
    rows.resize(rows.size() - more);
    if (rows.empty()) return print_rest(out, more, "calls");
    append(out,
           "longshore: %-20s%12s%6s%6s%24s\n"
           "longshore: %-20s%6s%6s%6s%6s%6s%6s%6s%6s\n",
           "", "calls", "MB", "hid-", "seconds of each rank", "call", "all", "offl.", "", "den %", "post",
           "betw.", "wait", "MPI");
    for (const int i : rows) print_times(out, call_name(Call::at(i)), counts.call[i], ranks);
    std::erase_if(rows, [&](int i) { return counts.call[i].bytes == 0; });
    if (!rows.empty())
        append(out,
               "longshore: %-20s%12s%6s%7s\n"
               "longshore: %-20s%6s%6s%6s%7s\n",
               "MB (10^6 bytes)", "services", "ranks", "own", "moved in call", "hid.", "waits", "waits",
               "blocks");
    for (const int i : rows) print_movers(out, call_name(Call::at(i)), counts.call[i]);
    print_rest(out, more, "calls");
}

// Ranks whose figures are in the summary; at least one, to divide by.
uint64_t known_ranks(const Summary& summary) {
    const auto known =
        std::count_if(summary.ranks.begin(), summary.ranks.end(), [](const RankTime& r) { return r.known; });
    return static_cast<uint64_t>(std::max<std::ptrdiff_t>(known, 1));
}

// Of a program that makes no call which could be offloaded.
std::string nothing_to_offload(const Summary& summary) {
    std::string line = "nothing was offloaded, and nothing can be gained by offloading today: ";
    std::vector<int> made;
    for (int i = 0; i < kOtherCount; ++i)
        if (is_collective(static_cast<Other>(i)) && summary.others.calls[i] != 0) made.push_back(i);
    std::stable_sort(made.begin(), made.end(),
                     [&](int a, int b) { return summary.others.time_ns[a] > summary.others.time_ns[b]; });
    if (made.empty())
        return line +
               "the program calls none of the collectives that Longshore carries (alltoall, allgather, "
               "bcast, gather, scatter, in all their forms)";
    line += made.size() == 1 ? "its collective is " : "its collectives are ";
    const size_t named = std::min(made.size(), kNamedMax);
    for (size_t i = 0; i < named; ++i) {
        const uint64_t calls = summary.others.calls[made[i]], ns = summary.others.time_ns[made[i]];
        const bool is_last = i + 1 == made.size();
        append(&line, "%s%s (%" PRIu64 " call%s, %.3f s of each rank, %.1f %% of the time)",
               i == 0    ? ""
               : is_last ? " and "
                         : ", ",
               function_name(function_of(static_cast<Other>(made[i]))), calls, calls == 1 ? "" : "s",
               static_cast<double>(ns) * 1e-9 / static_cast<double>(known_ranks(summary)),
               100 * ratio(ns, summary.wall_ns * known_ranks(summary)));
    }
    if (made.size() > named) append(&line, " and %zu more", made.size() - named);
    return line + ", which the MPI serves";
}

void print_calls(std::string* out, const Summary& summary) {
    const CallCounts total = total_of(summary.counts);
    if (total.calls == 0) return print_line(out, nothing_to_offload(summary));
    std::string line;
    append(&line, "%" PRIu64 " of %" PRIu64 " collective calls offloaded, %.1f MB", total.offloaded,
           total.calls, mb(total.bytes));
    const char* separator = "; left to MPI: ";
    for (int r = 0; r < kReasonCount; ++r) {
        if (total.reasons[r] == 0) continue;
        append(&line, "%s%" PRIu64 " %s", separator, total.reasons[r], reason_name(static_cast<Reason>(r)));
        separator = ", ";
    }
    print_line(out, line);
    if (total.bytes == 0) return;
    line.clear();
    append(&line, "MB moved: services %.1f, waiting ranks %.1f, own blocks %.1f", mb(total.by_service),
           mb(total.by_rank), mb(own_bytes(total)));
    print_line(out, line);
}

void print_packing(std::string* out, const PackCounts& p) {
    if ((p.packed_bytes | p.unpacked_bytes) == 0) return;
    std::string line;
    append(&line,
           "ranks packed %.1f MB in %.3f s and unpacked %.1f MB in %.3f s (%.1f MB of it in device memory)",
           mb(p.packed_bytes), static_cast<double>(p.packed_ns) * 1e-9, mb(p.unpacked_bytes),
           static_cast<double>(p.unpacked_ns) * 1e-9, mb(p.device_bytes));
    print_line(out, line);
}

void print_at_once(std::string* out, const std::vector<AtOnceCell>& cells, size_t rows_max) {
    bool can_be_tuned = false;
    size_t rows = 0;
    for (size_t i = 0; i < cells.size();) {
        const uint32_t call = cells[i].call;
        uint64_t calls = 0, at_once = 0;
        for (; i < cells.size() && cells[i].call == call; ++i) {
            calls += cells[i].calls;
            at_once += cells[i].at_once;
        }
        if (2 * at_once < calls) continue;
        const Call which = Call::at(static_cast<int>(call));
        can_be_tuned = can_be_tuned || which.form != Form::kPersistent;
        if (++rows > rows_max) continue;
        std::string line;
        append(&line, "%s: %" PRIu64 " of %" PRIu64 " calls were waited for at once", call_name(which),
               at_once, calls);
        print_line(out, line);
    }
    print_rest(out, rows - std::min(rows, rows_max), "calls waited for at once");
    if (can_be_tuned)
        print_line(
            out,
            "such calls overlap with nothing; 'longshore tune --from-stats FILE' makes them blocking ones");
}

// Calls by communicator, where there are several.
void print_comms(std::string* out, const std::vector<CommRow>& comms, double ranks, size_t rows_max) {
    struct Line {
        const CommRow* row;
        int call;
    };
    std::vector<Line> lines;
    for (const CommRow& row : comms)
        for (int i = 0; i < kCallCount; ++i)
            if (row.call[i].calls != 0) lines.push_back({&row, i});
    if (lines.empty() ||
        std::all_of(lines.begin(), lines.end(), [&](const Line& l) { return l.row == lines[0].row; }))
        return;
    const auto time = [](const Line& line) { return line.row->call[line.call].in_calls_ns(); };
    std::stable_sort(lines.begin(), lines.end(),
                     [&](const Line& a, const Line& b) { return time(a) > time(b); });
    if (rows_max == 0) return print_rest(out, lines.size(), "by communicator");
    append(out, "longshore: %-15s %5s %-20s%6s%6s%6s%7s\n", "communicator", "ranks", "call", "calls", "MB",
           "betw.", "in MPI");
    for (size_t i = 0; i < lines.size() && i < rows_max; ++i) {
        const CommCounts& c = lines[i].row->call[lines[i].call];
        std::string names;
        append(&names, "%-15.15s %5u %s", shown_name(*lines[i].row).c_str(), lines[i].row->ranks,
               call_name(Call::at(lines[i].call)));
        Row row(kNameColumns + 22, names.c_str());
        row.add(static_cast<double>(c.calls), true);
        row.add(mb(c.bytes + c.bytes_host), false);
        row.add(static_cast<double>(c.time_ns[static_cast<int>(CallTime::kBetween)]) * 1e-9 / ranks, false);
        row.add(static_cast<double>(c.in_calls_ns()) * 1e-9 / ranks, false, 7);
        row.print(out);
    }
    print_rest(out, lines.size() - std::min(lines.size(), rows_max), "by communicator");
}

// The calls that Longshore does not carry, as far as they matter.
void print_others(std::string* out, const Summary& summary, size_t rows_max) {
    const uint64_t whole_ns = summary.wall_ns * known_ranks(summary);
    std::vector<int> rows;
    for (int i = 0; i < kOtherCount; ++i)
        if (ratio(summary.others.time_ns[i], whole_ns) > kTimeShareShown) rows.push_back(i);
    std::stable_sort(rows.begin(), rows.end(),
                     [&](int a, int b) { return summary.others.time_ns[a] > summary.others.time_ns[b]; });
    if (rows.empty()) return;
    if (rows_max == 0) return print_rest(out, rows.size(), "other calls of > 1 %");
    append(out, "longshore: %-31s%8s%9s%7s\n", "other calls, > 1 % of the time", "calls", "seconds", "%");
    std::string collectives;
    for (size_t i = 0; i < rows.size() && i < rows_max; ++i) {
        const int row = rows[i];
        const char* const name = function_name(function_of(static_cast<Other>(row)));
        const double seconds = static_cast<double>(summary.others.time_ns[row]) * 1e-9;
        append(out, "longshore: %-31s%8s%9s%7.1f\n", name,
               shortened(static_cast<double>(summary.others.calls[row]), true).c_str(),
               shortened(seconds / static_cast<double>(known_ranks(summary)), false).c_str(),
               100 * ratio(summary.others.time_ns[row], whole_ns));
        if (is_collective(static_cast<Other>(row)))
            append(&collectives, "%s%s", collectives.empty() ? "" : ", ", name);
    }
    print_rest(out, rows.size() - std::min(rows.size(), rows_max), "of these");
    if (!collectives.empty()) print_line(out, "collectives that Longshore does not carry: " + collectives);
}

// Time in tests of offloaded operations, if it matters.
void print_tests(std::string* out, const Summary& summary) {
    const uint64_t testing_ns = total_of(summary.counts).time_ns[static_cast<int>(CallTime::kTesting)];
    if (ratio(testing_ns, summary.wall_ns * known_ranks(summary)) <= kTimeShareShown) return;
    std::string line;
    append(&line, "of betw., %.3f s of each rank in tests (MPI_Test and its relatives)",
           static_cast<double>(testing_ns) * 1e-9 / static_cast<double>(known_ranks(summary)));
    print_line(out, line);
}

// Who ended when, and in which call: of a job that was interrupted.
void print_ends(std::string* out, const Summary& summary, size_t rows_max) {
    std::string line;
    append(&line, "the job ended without MPI_Finalize; what is known of %zu of %d ranks until then:",
           summary.ends.size(), summary.size);
    print_line(out, line);
    for (size_t i = 0; i < summary.ends.size() && i < rows_max; ++i) {
        const RankEnd& end = summary.ends[i];
        line.clear();
        append(&line, "rank %d ended after %.3f s%s", end.rank, static_cast<double>(end.after_ns) * 1e-9,
               end.finalized ? ", finalized" : "");
        if (end.inside != 0)
            append(&line, ", in %s for %.3f s", function_name(static_cast<uint16_t>(end.inside - 1)),
                   static_cast<double>(end.inside_ns) * 1e-9);
        print_line(out, line);
    }
    print_rest(out, summary.ends.size() - std::min(summary.ends.size(), rows_max), "ranks after these");
    if (summary.ends.size() < static_cast<size_t>(summary.size))
        print_line(out, "the other ranks were on other machines, which write files of their own");
}

}  // namespace

RankTime time_of(const Figures& figures) {
    const CallCounts total = total_of(counts_of(figures));
    const OtherCounts others = others_of(figures);
    RankTime time;
    time.waiting_ns = total.time_ns[static_cast<int>(CallTime::kWaiting)];
    time.testing_ns = total.time_ns[static_cast<int>(CallTime::kTesting)];
    time.mpi_ns = total.time_ns[static_cast<int>(CallTime::kMpi)];
    time.mpi_waits_ns = figures.mpi_waits_ns.load();
    time.mpi_tests_ns = figures.mpi_tests_ns.load();
    time.uncarried_ns = total_ns(others, true);
    time.other_ns = total_ns(others, false) - time.uncarried_ns;
    return time;
}

double share_in_calls(const Summary& summary) {
    const uint64_t all = summary.wall_ns * known_ranks(summary);
    uint64_t in_calls = in_calls_ns(total_of(summary.counts));
    for (const RankTime& r : summary.ranks) in_calls += r.mpi_waits_ns + r.mpi_tests_ns;
    return std::min(1.0, ratio(in_calls, all));
}

double share_in_mpi(const Summary& summary) {
    return std::min(1.0, share_in_calls(summary) +
                             ratio(total_ns(summary.others, false), summary.wall_ns * known_ranks(summary)));
}

int latest_rank(const Summary& summary) {
    if (summary.ranks.size() < 2 || !summary.ends.empty()) return -1;
    const auto [least, most] =
        std::minmax_element(summary.ranks.begin(), summary.ranks.end(),
                            [](const RankTime& a, const RankTime& b) { return a.waits() < b.waits(); });
    const bool matters = ratio(most->waits() - least->waits(), summary.wall_ns) > kTimeShareShown;
    const bool apart = ratio(least->waits(), most->waits()) < kMostWait;
    return matters && apart ? static_cast<int>(least - summary.ranks.begin()) : -1;
}

uint64_t latest_rank_ns(const Summary& summary) {
    const int late = latest_rank(summary);
    if (late < 0) return 0;
    uint64_t most = 0;
    for (const RankTime& r : summary.ranks) most = std::max(most, r.waits());
    return most - summary.ranks[static_cast<size_t>(late)].waits();
}

std::vector<std::string> advice_on(const Summary& summary) {
    const CallCounts total = total_of(summary.counts);
    std::vector<std::string> out;
    if (!summary.offload && (total.calls != 0 || summary.launched != 0)) {
        out.push_back(why_off(summary) + ": this is a profile of the MPI alone");
        return out;
    }
    advise_on_service(summary, total, &out);
    const uint64_t moved = total.by_service + total.by_rank;
    if (out.empty() && moved != 0 && ratio(hidden_bytes(total), moved) < kHiddenShareLow)
        out.emplace_back(
            summary.place.spare == 0
                ? "little was hidden: no core is spare, so that service processes share the ranks' cores; "
                  "start one rank less on each node"
                : "little was hidden: most bytes moved while ranks waited; blocking calls hide nothing, and "
                  "nonblocking ones only while the program computes between post and wait");
    advise_on_malloc(summary, &out);
    advise_on_reasons(total, &out);
    if (const int late = latest_rank(summary); late >= 0) {
        const uint64_t least_ns = summary.ranks[static_cast<size_t>(late)].waits();
        const uint64_t late_ns = latest_rank_ns(summary);
        std::string line;
        append(&line,
               "rank %d waited least, %.3f s, another %.3f s: it seems to come last, by %.3f s in all "
               "(estimated); give it less work",
               late, static_cast<double>(least_ns) * 1e-9, static_cast<double>(least_ns + late_ns) * 1e-9,
               static_cast<double>(late_ns) * 1e-9);
        out.push_back(std::move(line));
    }
    return out;
}

std::string calls_text(const Summary& summary) {
    std::string text;
    print_calls(&text, summary);
    std::vector<std::string> sentences;
    advise_on_reasons(total_of(summary.counts), &sentences);
    for (const std::string& sentence : sentences) print_line(&text, sentence);
    return text;
}

std::string files_text(const WriteBehindCounts& files) {
    if (!files.refused.empty()) return "no file was written behind: " + files.refused;
    std::string text;
    append(&text, "written behind: %" PRIu64 " files, %" PRIu64 " bytes", files.files, files.bytes);
    append(&text, "; at most %.1f MB of a rank waited, of %.1f MB that may; ranks waited %.3f s for the disk",
           mb(files.waiting_bytes_max), mb(files.bound_bytes), static_cast<double>(files.waited_ns) * 1e-9);
    const char* before = "; written by the program: ";
    for (const auto& [reason, count] : files.passed) {
        append(&text, "%s%" PRIu64 " %s", before, count, reason.c_str());
        before = ", ";
    }
    return text;
}

// With so many rows of each table and list at most.
static std::string text_of(const Summary& summary, size_t rows_max) {
    std::string text;
    std::string* const out = &text;
    const auto ranks = static_cast<double>(known_ranks(summary));
    if (!summary.ends.empty()) print_ends(out, summary, rows_max);
    print_calls(out, summary);
    std::string line;
    append(&line,
           "%d rank%s, %.3f s from MPI_Init to %s; MPI took %.1f %% of it, collectives, waits and "
           "tests %.1f %%",
           summary.size, summary.size == 1 ? "" : "s", static_cast<double>(summary.wall_ns) * 1e-9,
           summary.ends.empty() ? "MPI_Finalize" : "the end", 100 * share_in_mpi(summary),
           100 * share_in_calls(summary));
    print_line(out, line);
    print_tables(out, summary.counts, ranks, rows_max);
    print_tests(out, summary);
    print_comms(out, summary.comms, ranks, rows_max);
    print_others(out, summary, rows_max);
    uint64_t waits_ns = 0;
    for (const RankTime& r : summary.ranks) waits_ns += r.mpi_waits_ns + r.mpi_tests_ns;
    if (ratio(waits_ns, summary.wall_ns * summary.ranks.size()) > kTimeShareShown) {
        line.clear();
        append(&line, "waits and tests of requests of the MPI: %.3f s of each rank",
               static_cast<double>(waits_ns) * 1e-9 / ranks);
        print_line(out, line);
    }
    const std::vector<std::string> advice = advice_on(summary);
    const size_t sentences = std::min(advice.size(), std::max(rows_max, kAdviceMin));
    for (size_t i = 0; i < sentences; ++i) print_line(out, advice[i]);
    print_rest(out, advice.size() - sentences, "such reasons");
    print_packing(out, summary.packed);
    if (summary.files.wanted) print_line(out, files_text(summary.files));
    print_at_once(out, summary.at_once, rows_max);
    return text;
}

std::string summary_text(const Summary& summary) {
    std::string text;
    for (size_t rows = kRowsMax + 1; rows-- > 0;) {
        text = text_of(summary, rows);
        if (std::count(text.begin(), text.end(), '\n') <= kLinesMax) break;
    }
    return text;
}

}  // namespace longshore::statistics
