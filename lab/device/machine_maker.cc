#include "device/machine_maker.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "device/results.h"
#include "model/machine_file.h"
#include "model/machine_path.h"

namespace longshore::tools {
namespace {

constexpr const char* kAsInBase = "base";

// Rows of one file, each by its test alone.
class Rows {
  public:
    explicit Rows(const Results& results) : results_(results) {}
    const Results& results() const { return results_; }

    std::optional<double> most(std::string_view test) const {
        std::optional<double> found;
        for (const auto& [key, row] : results_.rows)
            if (std::get<0>(key) == test) found = std::max(found.value_or(0), row.mean);
        return found;
    }
    // Of the largest block, which is the furthest from the caches, or of the smallest message.
    std::optional<double> largest(std::string_view test) const { return of(test, true); }
    std::optional<double> smallest(std::string_view test) const { return of(test, false); }

    // Whether the rows of UCX are of a card that reads and writes the other end's memory (device/ucx.cc).
    bool has_card() const {
        return std::any_of(results_.remarks.begin(), results_.remarks.end(), [](const std::string& remark) {
            return remark.find("a card reads and writes") != remark.npos;
        });
    }

  private:
    std::optional<double> of(std::string_view test, bool largest) const {
        std::optional<double> found;
        uint64_t bytes = 0;
        for (const auto& [key, row] : results_.rows) {
            if (std::get<0>(key) != test) continue;
            if (found && (std::get<1>(key) > bytes) != largest) continue;
            found = row.mean;
            bytes = std::get<1>(key);
        }
        return found;
    }

    const Results& results_;
};

// What of the network between two hosts decides: by the card where one reads and writes, else by TCP.
struct HostNetwork {
    std::optional<double> way_us, rate, messages;
    const char *way_test = "", *rate_test = "", *messages_test = "";
};

HostNetwork network_of(const Rows& rows) {
    HostNetwork out;
    if (rows.has_card()) {
        out.way_test = "half of ucx read time", out.rate_test = "ucx read",
        out.messages_test = "ucx messages";
        if (const auto time = rows.smallest("ucx read time")) out.way_us = *time / 2;  // there and back
        out.rate = rows.most("ucx read");
        out.messages = rows.most("ucx messages");
        return out;
    }
    out.rate_test = "network to", out.messages_test = "network messages";
    // Files of earlier versions have it with both ends asleep only.
    for (const char* test : {"network polling", "network latency"}) {
        if (out.way_us) continue;
        out.way_us = rows.smallest(test);
        out.way_test = test;
    }
    out.rate = rows.most("network to");
    out.messages = rows.most("network messages");
    return out;
}

class Maker {
  public:
    Maker(const timed::Machine& base, bool has_dpu) : machine_(base) {
        for (auto& [key, source] : machine_.sources)
            source = "not measured: as in " + base.name + " (" + source + ")";
        if (!has_dpu) machine_.dpu_cores = 0;
    }

    void take_host(const Rows& rows) {
        measured("node.cores", rows.results().machine.value("cores", 1), "", rows, "cores");
        const auto one = rows.largest("process copy"), all = rows.most("stream copy");
        // STREAM counts bytes read and written.
        if (all) measured("memory.rate", *all / 2, "GB/s", rows, "stream copy");
        if (one) measured("memory.core_rate", *one, "GB/s", rows, "process copy");
        if (one && machine_.memory_rate < machine_.memory_core_rate)
            follows("memory.rate", *one, "GB/s", "not less than memory.core_rate, which is of one core");
        take(rows, "rank.post", "rank post", "ns");
        take(rows, "rank.test", "rank look", "ns");
        take(rows, "mpi.shared", "word between cores", "ns");
    }

    // Of the processor on which service processes run: a DPU's where there is one, else the host's.
    void take_services(const Rows& rows, const Rows* network) {
        take(rows, "service.turn", "service look", "ns");
        take(rows, "service.read", "service read", "ns");
        take(rows, "service.copy", "service copy", "ns");
        take(rows, "service.finish", "service finish", "ns");
        take(rows, "service.wake", "wake-up call", "us");
        take(rows, "service.wake_up", "wake-up", "us");
        // The engine's part, and what the network's library or the system takes for a message.
        const HostNetwork found = network != nullptr ? network_of(*network) : HostNetwork{};
        const double each_ns = found.messages ? 1e9 / *found.messages : 0;
        for (const auto& [key, test] :
             {std::pair{"service.message", "service message"}, std::pair{"service.send", "service send"}}) {
            const std::string tests =
                found.messages ? fmt::format("{} and {}", test, found.messages_test) : test;
            if (const auto mean = rows.most(test)) measured(key, *mean + each_ns, "ns", rows, tests);
        }
    }

    void take_dpu(const Rows& rows) {
        measured("dpu.cores", rows.results().machine.value("cores", 1), "", rows, "cores");
        // What the network brings is written, and what it takes is read: STREAM counts both.
        if (const auto rate = rows.most("stream copy"))
            measured("dpu.memory_rate", *rate, "GB/s", rows, "stream copy");
        take(rows, "dpu.stand_in_test", "rank look", "ns");
        take(rows, "dpu.stand_in_wake_up", "wake-up", "us");
    }

    // A message between host and DPU passes the card from either side, a read there and back. Without a card
    // that reads, the other end's processor is part of a read's time, and the bus is not seen.
    void take_host_dpu(const Rows& rows) {
        if (rows.has_card()) {
            if (const auto time = rows.smallest("ucx read time"))
                measured("pcie.latency", *time / 4, "us", rows, "a quarter of ucx read time");
            if (const auto rate = rows.most("ucx read"))
                measured("pcie.rate", *rate, "GB/s", rows, "ucx read");
        }
        for (const auto& [key, test] :
             {std::pair{"dpu.message", "ucx message"}, std::pair{"dpu.session", "network latency"}}) {
            if (const auto us = rows.smallest(test))
                measured(key, std::max(0.0, *us - 2 * us_of(machine_.pcie_latency)), "us", rows,
                         std::string(test) + " less twice pcie.latency");
        }
    }

    // The way from host to host was measured as a whole: what is not known apart is part of the links, of
    // which one is on either side of the switch.
    void take_network(const Rows& rows) {
        const HostNetwork found = network_of(rows);
        if (found.rate) {
            measured("link.rate", *found.rate, "GB/s", rows, found.rate_test);
            if (machine_.pcie_rate < machine_.link_rate)
                follows("pcie.rate", *found.rate, "GB/s", "not less than link.rate, which passes it");
        }
        if (!found.way_us) return;
        const std::string within = "part of link.latency, which was measured from host to host";
        follows("switch.latency", 0, "us", within);
        if (!machine_.has_dpu()) follows("pcie.latency", 0, "us", within);
        const double rest = std::max(0.0, *found.way_us - 2 * us_of(machine_.pcie_latency));
        measured("link.latency", rest / 2, "us", rows,
                 "half of " + std::string(found.way_test) +
                     (machine_.pcie_latency == 0 ? "" : ", less pcie.latency"));
    }

    const std::string& wrong() const { return wrong_; }
    const std::string& keys() const { return keys_; }
    size_t count() const { return count_; }
    timed::Machine& machine() { return machine_; }

  private:
    static double us_of(timed::Time time) { return static_cast<double>(time) / timed::kMicrosecond; }

    void take(const Rows& rows, const char* key, const char* test, const char* unit) {
        if (const auto mean = rows.most(test)) measured(key, *mean, unit, rows, test);
    }
    void measured(const char* key, double value, const char* unit, const Rows& rows,
                  const std::string& tests) {
        const Results& results = rows.results();
        follows(key, value, unit,
                fmt::format("measured by longshore device, {}, {}: {}", results.machine.value("date", ""),
                            std::filesystem::path(results.path).filename().string(), tests));
        keys_ += (keys_.empty() ? "" : ", ") + std::string(key);
        ++count_;
    }
    void follows(const char* key, double value, const char* unit, const std::string& source) {
        const std::string wrong = timed::set_value(&machine_, fmt::format("{}={:.6g} {}", key, value, unit));
        if (!wrong.empty() && wrong_.empty()) wrong_ = wrong + " (" + source + ")";
        machine_.sources[key] = source;
    }

    timed::Machine machine_;
    std::string wrong_, keys_;
    size_t count_ = 0;
};

bool is_of_network(const Results& results) {
    return std::any_of(results.order.begin(), results.order.end(), [](const ResultKey& key) {
        const std::string& test = std::get<0>(key);
        return test.starts_with("network ") || test.starts_with("ucx ");
    });
}

}  // namespace

std::string make_machine(const MachineFiles& files, MadeMachine* made) {
    timed::Machine base;
    if (const std::string wrong = timed::read_machine(machine_path(files.base), &base); !wrong.empty())
        return "--base " + files.base + ": " + wrong;
    const bool has_dpu = !files.dpu.empty() || !files.host_dpu.empty();
    if (has_dpu && !base.has_dpu())
        return "--base " + files.base + " has no DPU, from which values would come that are not measured";
    Results host, dpu, host_dpu, network;
    std::string names;
    const std::pair<const std::string*, Results*> all[] = {
        {&files.host, &host}, {&files.dpu, &dpu}, {&files.host_dpu, &host_dpu}, {&files.network, &network}};
    for (const auto& [path, results] : all) {
        if (path->empty() || (results == &dpu && *path == kAsInBase)) continue;
        if (const std::string wrong = read_results(*path, results); !wrong.empty()) return wrong;
        if ((results == &host_dpu || results == &network) && !is_of_network(*results))
            return *path + ": nothing of a network in it (longshore device --to)";
        names +=
            (names.empty() ? "" : ", ") + fmt::format("{} ({})", *path, results->machine.value("date", ""));
    }
    Maker maker(base, has_dpu);
    const Rows host_rows(host), dpu_rows(dpu), host_dpu_rows(host_dpu);
    const Rows between(files.network.empty() ? host : network);
    maker.take_host(host_rows);
    if (!has_dpu) maker.take_services(host_rows, &between);
    if (!dpu.rows.empty()) {
        maker.take_services(dpu_rows, &between);
        maker.take_dpu(dpu_rows);
    }
    maker.take_host_dpu(host_dpu_rows);
    maker.take_network(between);
    if (!maker.wrong().empty()) return maker.wrong();
    timed::Machine& machine = made->machine = maker.machine();
    machine.name = "measured";
    machine.title = name_of(host.machine) + (dpu.rows.empty() ? "" : "; its DPU: " + name_of(dpu.machine));
    made->measured = maker.count();
    made->text =
        fmt::format("# Made by 'longshore device machine' from {}.\n# Measured: {}.\n", names, maker.keys()) +
        timed::write_machine(machine);
    timed::Machine again;
    return timed::parse_machine(made->text, "the machine", &again);
}

}  // namespace longshore::tools
