#include "simulator/options.h"

#include <algorithm>
#include <initializer_list>

namespace longshore::sim {
namespace {

uint32_t one_of(Prng& r, std::initializer_list<uint32_t> values) {
    return values.begin()[r.below(values.size())];
}

}  // namespace

WorldOptions WorldOptions::draw(uint64_t seed, uint32_t version) {
    Prng r(mix64(seed ^ 0x6f7074696f6e73ull));
    WorldOptions o;
    o.seed = seed;
    o.version = version;
    const uint64_t shape = r.below(100);
    o.nodes = shape < 22 ? 1 : shape < 38 ? 2 : static_cast<uint32_t>(r.between(3, 8));
    const uint64_t crowd = r.below(100);
    if (crowd < 30)
        o.ranks = static_cast<uint32_t>(r.between(1, 8));
    else if (crowd < 97)
        o.ranks = static_cast<uint32_t>(r.between(9, 20));
    else
        o.ranks = static_cast<uint32_t>(r.between(21, 64));
    o.ranks = std::max(o.ranks, o.nodes);
    for (uint32_t n = 0; n < o.nodes; ++n) o.ranks_of_node[n] = 1;
    const bool uneven = r.chance(500);
    for (uint32_t i = o.nodes; i < o.ranks; ++i)
        ++o.ranks_of_node[uneven ? std::min(r.below(o.nodes), r.below(o.nodes)) : i % o.nodes];
    for (uint32_t n = 0; n < o.nodes; ++n) o.services_of_node[n] = static_cast<uint32_t>(r.between(1, 4));

    o.groups = static_cast<uint32_t>(r.between(1, 4));
    o.operations = static_cast<uint32_t>(r.between(1, o.ranks <= 8 ? 10 : o.ranks <= 20 ? 5 : 2));
    o.chunk_bytes = one_of(r, {64, 64, 100, 128, 256, 1000});
    o.ahead = one_of(r, {1, 2, 4, 8});
    o.records = one_of(r, {3, 8, 16});
    o.parked = one_of(r, {2, 8, 32});
    o.claims_bytes = one_of(r, {8192, 32768});
    o.arena_bytes = one_of(r, {16384, 65536});
    o.watches = one_of(r, {4, 16, 64, 256});
    // As many as can be open: an operation that finds no watch waits, perhaps for one that waits for it.
    o.watches =
        std::max(o.watches, *std::max_element(o.ranks_of_node, o.ranks_of_node + o.nodes) * o.operations);
    o.held = one_of(r, {1, 4, 16, 128});
    o.queued = one_of(r, {2, 8, 64, 256});
    o.imports = one_of(r, {4, 16, 64});
    o.reads = static_cast<uint32_t>(r.between(1, 4));
    o.eager_bytes = one_of(r, {0, 8, 64, 256, 1024});
    o.copies_in_flight = static_cast<uint32_t>(r.between(1, 3));
    o.block_bytes_max = o.ranks <= 8 ? 1024 : 300;
    o.blocking = one_of(r, {0, 300, 300, 1000});
    o.in_place = one_of(r, {0, 0, 300});
    o.stable = one_of(r, {0, 300, 800});
    o.zero = one_of(r, {0, 100, 500});
    o.wait_early = one_of(r, {0, 300, 700});
    o.cooperative = r.chance(700);
    o.regions_per_buffer = r.chance(500);
    o.regions = o.regions_per_buffer ? 40 : 2;

    o.late_ns = one_of(r, {0, 5000, 20000, 200000});
    o.very_late_ns = r.chance(400) ? 2000000 : 0;
    o.message_ns = one_of(r, {1000, 5000, 50000});
    o.move_ns = one_of(r, {200, 2000, 20000});
    o.step_ns = one_of(r, {100, 300, 3000});
    o.wake_ns = one_of(r, {200, 5000, 50000});

    o.again = r.chance(400) ? one_of(r, {50, 300, 700}) : 0;
    o.torn = r.chance(600) ? 1000 : 0;
    o.unreadable = r.chance(80) ? one_of(r, {20, 200}) : 0;
    o.not_permitted = r.chance(100) ? one_of(r, {100, 500}) : 0;
    o.wide_descriptors = r.chance(200);
    o.import_fails = o.wide_descriptors && r.chance(400) ? one_of(r, {50, 300}) : 0;
    o.kills = r.chance(version < 3 ? 350 : 450) ? static_cast<uint32_t>(r.between(1, 3)) : 0;
    // The moment after the landed bit twice as often: it is only there where blocks come from other nodes.
    o.kill_phase = static_cast<uint32_t>(r.below(8));
    if (o.kill_phase == 7) o.kill_phase = 4;
    o.restart = o.nodes > 1 || r.chance(500);
    // Memory that only its rank can reach needs ranks that work.
    if (o.not_permitted) o.cooperative = true;
    // Drawn last: what came before is what it was in version 1.
    o.late_frames = o.kills != 0 && o.nodes > 1 && r.chance(800);
    if (o.nodes > 1 && r.chance(90)) {
        o.lost_node = static_cast<uint32_t>(r.below(o.nodes)) + 1;
        o.lost_ns = r.below(2 * o.late_ns + o.very_late_ns / 2 + 200000);
        o.unreadable = o.import_fails = 0;  // every error is the loss's
    }
    o.yields = o.cooperative && r.chance(400);
    if (version >= 4 && r.chance(500)) {
        o.staging_slots = static_cast<uint32_t>(r.between(1, 4));
        o.staging_slot_bytes = one_of(r, {24, 64, 256, 1000});
        o.staging_only = r.chance(300);
        o.staged = one_of(r, {300, 1000});
    }
    if (version >= 5 && o.staging_slots != 0 && o.nodes > 2 && r.chance(250)) {
        o.broadcasts = 800;
        o.staged = 1000;
        o.eager_bytes = one_of(r, {0, 16});
        o.staging_slots = static_cast<uint32_t>(r.between(2, 8));
        o.staging_slot_bytes = o.chunk_bytes;
    }
    // A move counts 4 KiB: after how many of them.
    if (version >= 6 && r.chance(700)) o.help_bytes = 4096 * one_of(r, {1, 3, 10});
    if (version >= 7 && o.nodes > 1 && r.chance(300)) o.along = one_of(r, {300, 1000});
    if (version >= 8 && o.nodes > 1 && r.chance(300)) o.read_window = one_of(r, {1, 100, 1000});
    if (version >= 8 && r.chance(200)) o.core_wait_ns = one_of(r, {10000, 100000, 300000});
    if (version >= 9 && r.chance(200)) o.repeat_ticks = one_of(r, {1, 4});
    if (version >= 12 && r.chance(300)) o.before_wrap = one_of(r, {1, 2, 6});
    return o;
}

WorldOptions WorldOptions::behind_slow_links() const {
    WorldOptions o = *this;
    Prng r(mix64(seed ^ 0x51075ull));
    o.link_ns_per_byte = one_of(r, {1, 10, 50});
    o.core_wait_ns = one_of(r, {50000, 100000, 300000});
    o.read_window = 1000;
    o.window_changes = true;
    o.reads = static_cast<uint32_t>(r.between(1, 16));
    return o;
}

WorldOptions WorldOptions::in_any_order() const {
    WorldOptions o = *this;
    Prng r(mix64(seed ^ 0x0a4de4ull));
    o.any_order = true;
    o.groups = static_cast<uint32_t>(r.between(2, 12));
    o.operations = std::max(o.operations, static_cast<uint32_t>(r.between(2, o.ranks <= 8 ? 14 : 6)));
    // A rank that had to wait for room would wait for what another enters last.
    o.ahead = o.records = 16;
    o.claims_bytes = 1 << 17;
    o.arena_bytes = 1 << 18;
    o.regions_per_buffer = false;
    o.regions = 2;
    o.watches =
        std::max(o.watches, *std::max_element(o.ranks_of_node, o.ranks_of_node + o.nodes) * o.operations);
    o.blocking = o.wait_early = 0;
    return o;
}

WorldOptions WorldOptions::behind_dpus() const {
    WorldOptions o = *this;
    Prng r(mix64(seed ^ 0xd9a5ull));
    o.dpus = true;
    o.nodes = static_cast<uint32_t>(r.between(1, 3));
    o.ranks = static_cast<uint32_t>(r.between(2 * o.nodes, 12));
    for (uint32_t n = 0; n < kNodesMax; ++n) o.ranks_of_node[n] = n < o.nodes ? 1 : 0;
    for (uint32_t i = o.nodes; i < o.ranks; ++i) ++o.ranks_of_node[r.below(o.nodes)];
    for (uint32_t n = 0; n < o.nodes; ++n) o.services_of_node[n] = static_cast<uint32_t>(r.between(1, 3));
    o.operations = static_cast<uint32_t>(r.between(1, 8));
    o.watches =
        std::max(o.watches, *std::max_element(o.ranks_of_node, o.ranks_of_node + o.nodes) * o.operations);
    // A stand-in moves nothing by itself.
    o.cooperative = o.yields = false;
    o.not_permitted = 0;
    o.restart = true;
    o.late_frames = o.kills != 0 && o.nodes > 1 && r.chance(800);
    o.shared = one_of(r, {500, 800, 1000});
    o.staging_slots = static_cast<uint32_t>(r.between(1, 6));
    o.staging_slot_bytes = one_of(r, {64, 256, 1000});
    o.staging_only = r.chance(700);  // else memory of the host has aliases
    o.stable = one_of(r, {0, 0, 300});
    o.copying_ranks = one_of(r, {1000, 1000, 1000, 800});
    o.tested = one_of(r, {0, 0, 300});
    o.handed_bytes = one_of(r, {1, 1, 65, 200});
    o.session_ns = one_of(r, {500, 5000, 50000});
    // Longer than a stand-in is patient.
    if (r.chance(300)) o.late_ns = one_of(r, {1000000, 5000000});
    // Small windows and pools are what the other worlds are for; a node that is lost has its DPU with it.
    if (o.lost_node > o.nodes || o.nodes == 1) o.lost_node = 0;
    o.along = o.nodes > 1 ? o.along : 0;
    if (o.lost_node == 0 && r.chance(350)) o.ends = static_cast<uint32_t>(r.between(1, 2));
    if (version >= 10) o.agents = one_of(r, {0, 500, 1000});
    return o;
}

WorldOptions WorldOptions::with_ranks_that_give_up() const {
    WorldOptions o = *this;
    Prng r(mix64(seed ^ 0x61eeu));
    o.nodes = static_cast<uint32_t>(r.between(2, 4));
    o.ranks = static_cast<uint32_t>(r.between(2 * o.nodes, 14));
    for (uint32_t n = 0; n < kNodesMax; ++n) o.ranks_of_node[n] = n < o.nodes ? 1 : 0;
    for (uint32_t i = o.nodes; i < o.ranks; ++i) ++o.ranks_of_node[r.below(o.nodes)];
    uint32_t services = 0;
    for (uint32_t n = 0; n < o.nodes; ++n)
        services += o.services_of_node[n] = static_cast<uint32_t>(r.between(1, 3));
    o.operations = static_cast<uint32_t>(r.between(1, 8));
    // What a rank gives up keeps its room. One without a record for an operation of its node alone would wait
    // for what never ends; what goes beyond the node is given up without one (below).
    o.ahead = o.records = 16;
    o.claims_bytes = 1 << 17;
    o.arena_bytes = 1 << 18;
    o.regions = 40;
    o.watches =
        std::max(o.watches, *std::max_element(o.ranks_of_node, o.ranks_of_node + o.nodes) * o.operations);
    o.lost_node = 0;
    o.unreadable = o.import_fails = 0;  // every error is the loss's
    o.restart = true;
    o.late_frames = o.kills != 0 && r.chance(800);
    o.torn = 1000;
    o.stable = one_of(r, {0, 0, 300});
    // Others are restarted within 3 ms.
    o.limit_ns = one_of(r, {5000000, 20000000});
    o.late_ns = one_of(r, {20000, 200000, static_cast<uint32_t>(o.limit_ns)});
    o.very_late_ns = r.chance(600) ? 2 * o.limit_ns : 0;
    // Some moves are under way when a rank gives up.
    o.move_ns = one_of(r, {2000, 20000, 200000, static_cast<uint32_t>(o.limit_ns / 10)});
    o.lost_service = static_cast<uint32_t>(r.below(services)) + 1;
    o.lost_ns = r.below(2 * o.late_ns + o.very_late_ns / 2 + 200000);
    // Chunks that service processes leave to ranks.
    if (r.chance(250)) {
        o.not_permitted = one_of(r, {100, 500, 1000});
        o.cooperative = true;
    }
    if (version >= 11 && r.chance(400)) o.ahead = one_of(r, {1, 2, 4});
    return o;
}

WorldOptions WorldOptions::made(Worlds worlds) const {
    switch (worlds) {
        case Worlds::kAsDrawn:
            return *this;
        case Worlds::kSlowLinks:
            return behind_slow_links();
        case Worlds::kAnyOrder:
            return in_any_order();
        case Worlds::kDpus:
            return behind_dpus();
        case Worlds::kGivingUp:
            return with_ranks_that_give_up();
    }
    __builtin_unreachable();
}

WorldOptions WorldOptions::large_world() {
    WorldOptions o;
    o.large = true;
    o.seed = 1024;
    o.nodes = 32;
    o.ranks = 1024;
    for (uint32_t n = 0; n < 32; ++n) {
        o.ranks_of_node[n] = 32;
        o.services_of_node[n] = 4;
    }
    o.groups = 1;
    o.operations = 2;
    o.chunk_bytes = 4096;
    o.ahead = 2;
    o.records = 2;
    o.regions = 2;
    // Little more than two operations need: where the system gives huge pages unasked, they are resident.
    o.claims_bytes = 65536;
    o.arena_bytes = 131072;
    o.watches = 32;
    o.held = 1024;  // a row of each rank, as jobs have room for: else most are told again and again
    o.queued = 2048;
    o.eager = 16;
    o.imports = 1024;
    o.reads = 64;
    o.block_bytes_max = 8;
    o.eager_bytes = 64;
    o.blocking = 0;
    o.in_place = o.stable = 0;
    o.zero = 0;
    o.cooperative = false;
    o.actions_per_step = 256;
    o.link_frames = 1;
    o.merge_wakes = true;
    o.wake_ns = 50000;
    o.message_ns = 500;
    o.copies_in_flight = 64;
    o.late_ns = 0;
    return o;
}

std::string WorldOptions::text() const {
    std::string t = "seed=" + std::to_string(seed) + " options=" + std::to_string(version);
    const auto put = [&t](const char* name, uint64_t v) {
        t += std::string(" ") + name + "=" + std::to_string(v);
    };
    put("nodes", nodes);
    put("ranks", ranks);
    t += " placement=";
    for (uint32_t n = 0; n < nodes; ++n)
        t += (n ? "," : "") + std::to_string(ranks_of_node[n]) + "/" + std::to_string(services_of_node[n]);
    put("groups", groups);
    put("operations", operations);
    put("chunk_bytes", chunk_bytes);
    put("ahead", ahead);
    put("records", records);
    put("parked", parked);
    put("claims_bytes", claims_bytes);
    put("arena_bytes", arena_bytes);
    put("watches", watches);
    put("held", held);
    put("queued", queued);
    put("imports", imports);
    put("reads", reads);
    put("eager_bytes", eager_bytes);
    put("copies_in_flight", copies_in_flight);
    put("block_bytes_max", block_bytes_max);
    put("blocking", blocking);
    put("in_place", in_place);
    put("stable", stable);
    put("zero", zero);
    put("wait_early", wait_early);
    put("cooperative", cooperative);
    put("any_order", any_order);
    put("regions_per_buffer", regions_per_buffer);
    put("late_ns", late_ns);
    put("very_late_ns", very_late_ns);
    put("message_ns", message_ns);
    put("move_ns", move_ns);
    put("step_ns", step_ns);
    put("wake_ns", wake_ns);
    put("again", again);
    put("torn", torn);
    put("unreadable", unreadable);
    put("not_permitted", not_permitted);
    put("wide_descriptors", wide_descriptors);
    put("import_fails", import_fails);
    put("kills", kills);
    put("kill_phase", kill_phase);
    put("restart", restart);
    put("late_frames", late_frames);
    put("yields", yields);
    put("staging_slots", staging_slots);
    put("staging_slot_bytes", staging_slot_bytes);
    put("staging_only", staging_only);
    put("staged", staged);
    put("broadcasts", broadcasts);
    put("help_bytes", help_bytes);
    put("repeat_ticks", repeat_ticks);
    put("along", along);
    put("read_window", read_window);
    put("core_wait_ns", core_wait_ns);
    put("link_ns_per_byte", link_ns_per_byte);
    put("window_changes", window_changes);
    put("before_wrap", before_wrap);
    put("lost_node", lost_node);
    put("lost_ns", lost_ns);
    if (lost_service != 0) {
        put("lost_service", lost_service);
        put("limit_ns", limit_ns);
    }
    if (!dpus) return t;
    put("dpus", dpus);
    put("ends", ends);
    put("copying_ranks", copying_ranks);
    put("tested", tested);
    put("shared", shared);
    put("handed_bytes", handed_bytes);
    put("session_ns", session_ns);
    put("agents", agents);
    return t;
}

}  // namespace longshore::sim
