// longshore-sim: replays one seed, or runs many.
#include <CLI/CLI.hpp>

#include "simulator/campaign.h"
#include "simulator/options.h"

int main(int argc, char** argv) {
    using namespace longshore::sim;
    CLI::App app{"Seeded simulator of the Longshore engine: virtual time, faults, oracles"};
    uint64_t seed = 0;
    uint32_t version = kOptionsVersion;
    bool verbose = false, large = false, check_determinism = false, no_floors = false;
    double seconds_max = 5;
    uint64_t megabytes_max = 256;
    CampaignOptions o;
    o.replay = argv[0];
    auto* one = app.add_option("--seed", seed, "Replay one world; its options are printed first");
    app.add_option("--options-version", version, "With --seed: what the seed meant in that version")
        ->capture_default_str()
        ->needs(one)
        ->check(CLI::Range(kOptionsVersionMin, kOptionsVersion));
    app.add_flag("--verbose", verbose, "With --seed: print every event");
    app.add_option("--seeds", o.count, "How many worlds to run")->capture_default_str()->excludes(one);
    app.add_option("--first", o.first, "The first of them")->capture_default_str();
    app.add_option("--jobs", o.jobs, "Processes")->capture_default_str();
    app.add_option("--stop-after", o.stop_after, "Failing seeds after which to stop")->capture_default_str();
    app.add_flag("--no-floors", no_floors, "Do not fail on coverage");
    app.add_flag("--check-determinism", check_determinism, "Run every world twice and compare their hashes");
    bool slow_links = false, any_order = false, dpus = false, give_up = false;
    auto* slow =
        app.add_flag("--slow-link", slow_links,
                     "Worlds with slow links, service processes that run late and windows that change");
    auto* any =
        app.add_flag("--any-order", any_order,
                     "Worlds with many groups, whose operations each rank enters in an order of its own")
            ->excludes(slow);
    auto* served =
        app.add_flag("--dpus", dpus, "Worlds whose ranks are served by DPUs, and copy from each other")
            ->excludes(slow)
            ->excludes(any);
    app.add_flag("--give-up", give_up,
                 "Worlds that lose a service process for good, and whose ranks take their buffers back")
        ->excludes(slow)
        ->excludes(any)
        ->excludes(served);
    app.add_flag("--large", large, "The one world of 1,024 ranks");
    app.add_option("--seconds-max", seconds_max, "With --large: limit on time on a core")
        ->capture_default_str();
    app.add_option("--megabytes-max", megabytes_max, "With --large: limit on resident memory")
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    if (large) return run_large(seconds_max, megabytes_max << 20);
    if (slow_links) o.worlds = Worlds::kSlowLinks;
    if (any_order) o.worlds = Worlds::kAnyOrder;
    if (dpus) o.worlds = Worlds::kDpus;
    if (give_up) o.worlds = Worlds::kGivingUp;
    if (*one) return run_one(seed, version, o.worlds, verbose);
    o.floors = !no_floors;
    if (slow_links) o.replay += " --slow-link";
    if (any_order) o.replay += " --any-order";
    if (dpus) o.replay += " --dpus";
    if (give_up) o.replay += " --give-up";
    if (check_determinism) o.twice_per_mille = 1000;
    return run_campaign(o);
}
