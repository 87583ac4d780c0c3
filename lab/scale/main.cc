// longshore-scale: what the engine costs on one node of a large job.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/output_file.h"
#include "scale/report.h"

namespace {

using namespace longshore;
using namespace longshore::scale;

template <class T>
std::vector<T> by_name(const std::vector<std::string>& names, const std::map<std::string, T>& all) {
    std::vector<T> out;
    for (const std::string& name : names) out.push_back(all.at(name));
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "What the engine costs on one node of a large job: the ranks and service processes of one node are "
        "real, "
        "all other nodes are modelled (docs/scale.md). A line for each combination of what is asked for."};
    std::map<std::string, Collective> collectives;
    for (uint32_t c = 0; c < kCollectives; ++c)
        if (const auto& rules = rules_of(static_cast<Collective>(c)); rules.givers == Who::kAll || c == 4)
            if (rules.takers == Who::kAll || c == 4) collectives[rules.name] = static_cast<Collective>(c);
    const std::map<std::string, Entry> entries{
        {"together", Entry::kTogether}, {"staggered", Entry::kStaggered}, {"last", Entry::kLast}};
    const std::map<std::string, Pace> paces{{"in-step", Pace::kInStep}, {"early", Pace::kEarly}};
    std::vector<uint32_t> nodes{4, 16, 64, 256, 1024}, ranks{32}, services{1};
    std::vector<uint64_t> sizes{1024, 65536};
    std::vector<std::string> names{"alltoallv", "alltoall", "allgatherv", "bcast"}, entry_names{"together"};
    std::string pace = "in-step", json;
    uint32_t operations = 5;
    Shape base;
    const auto list = [](CLI::Option* option) { option->delimiter(',')->capture_default_str(); };
    list(app.add_option("--nodes", nodes, "Nodes of the job")->check(CLI::Range(2, 4096)));
    list(app.add_option("--ranks", ranks, "Ranks of each node")->check(CLI::Range(1, int{kRanksPerNodeMax})));
    list(app.add_option("--services", services, "Service processes of each node")->check(CLI::Range(1, 16)));
    list(app.add_option("--sizes", sizes, "Bytes of a block; the largest of a v-form's")
             ->transform(CLI::AsSizeValue(false)));
    list(app.add_option("--collectives", names, "Which")->check(CLI::IsMember(collectives)));
    list(app.add_option("--entry", entry_names, "When the ranks of a node enter")
             ->check(CLI::IsMember(entries)));
    app.add_option("--pace", pace, "When modelled nodes send: with the real one, or all at the beginning")
        ->check(CLI::IsMember(paces))
        ->capture_default_str();
    app.add_option("--operations", operations, "Of each, after one that is not counted: the median is shown")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--real-nodes", base.real_nodes, "Nodes that are not modelled")->capture_default_str();
    app.add_option("--stagger-rounds", base.stagger_rounds,
                   "Actions of a service process between two ranks that enter one after the other")
        ->capture_default_str();
    app.add_option("--read-rounds", base.read_rounds, "... while a read is under way")->capture_default_str();
    app.add_option("--seed", base.seed, "Of the order of peers with --pace early")->capture_default_str();
    app.add_option("--rows-max", base.rows_max,
                   "Rows that a service process keeps; 0, as of the others: as the job's supervisor chooses");
    app.add_option("--reads-queued-max", base.reads_queued_max, "Blocks in its queue");
    app.add_option("--json", json, "Write a line of JSON for each, too");
    CLI11_PARSE(app, argc, argv);

    std::string error;
    FILE* const file = json.empty() ? nullptr : open_output_file(json, false, &error);
    if (!json.empty() && file == nullptr) {
        fprintf(stderr, "longshore-scale: %s\n", error.c_str());
        return 1;
    }
    const bool progress = isatty(2) != 0;
    print_head();
    for (const Collective collective : by_name(names, collectives))
        for (const uint64_t size : sizes)
            for (const Entry entry : by_name(entry_names, entries))
                for (const uint32_t count : services)
                    for (const uint32_t local : ranks)
                        for (const uint32_t n : nodes) {
                            Shape shape = base;
                            shape.collective = collective;
                            shape.block_bytes = size;
                            shape.entry = entry;
                            shape.pace = paces.at(pace);
                            shape.services = count;
                            shape.ranks = local;
                            shape.nodes = n;
                            if (!shape.valid() || (entry == Entry::kLast && shape.pace != Pace::kEarly)) {
                                fprintf(stderr,
                                        "longshore-scale: left out: %u nodes of %u ranks, %u service "
                                        "processes, entry %s with pace %s\n",
                                        n, local, count, name_of(entry), name_of(shape.pace));
                                continue;
                            }
                            if (progress)
                                fprintf(stderr, "%s, %llu B, %u nodes x %u ...\r", rules_of(collective).name,
                                        static_cast<unsigned long long>(size), n, local);
                            const Measured m = measure(shape, operations);
                            print_line(m);
                            if (file != nullptr) write_json(file, m);
                        }
    if (file != nullptr) fclose(file);
    return 0;
}
