// What one simulated world looks like: everything is drawn from its seed, and printed before it runs.
#pragma once

#include <cstdint>
#include <string>

#include "base/prng.h"

namespace longshore::sim {

// Changes whenever a seed would give another world: named seeds (tests/sim/seeds.txt) carry it.
constexpr uint32_t kOptionsVersion = 12;
// The oldest that can still be drawn. Version 2 has no gather(v) and scatter(v), and kills less often;
// version 3 has no staging, version 4 no worlds of broadcasts; until version 5 no service process takes of
// another's work, until version 6 nothing is sent along, until version 7 reads in flight are bounded by their
// number alone, and no service process runs late; until version 8 nothing is told again after a while,
// until version 9 no agent copies; until version 10 all operations have room where ranks give up; until
// version 11 all numbers begin at 0.
constexpr uint32_t kOptionsVersionMin = 2;

constexpr uint32_t kNodesMax = 32;

// What is made of a drawn world.
enum class Worlds { kAsDrawn, kSlowLinks, kAnyOrder, kDpus, kGivingUp };

struct WorldOptions {
    uint64_t seed = 0;
    uint32_t version = kOptionsVersion;
    bool large = false;  // the one world of 1,024 ranks

    uint32_t nodes = 1, ranks = 1, groups = 1, operations = 1;
    uint32_t ranks_of_node[kNodesMax] = {};
    uint32_t services_of_node[kNodesMax] = {};

    // Limits, small so that they are reached.
    uint32_t chunk_bytes = 64, ahead = 4, records = 16, regions = 40, parked = 16;
    uint32_t claims_bytes = 16384, arena_bytes = 65536;
    uint32_t watches = 64, held = 64, queued = 64, imports = 64, reads = 4, eager = 512, eager_bytes = 64;
    uint32_t staging_slots = 0, staging_slot_bytes = 64;
    bool staging_only = false;
    uint32_t help_bytes = 0;
    uint32_t repeat_ticks = 0;  // mostly never: where something was lost for good, the world does not end
    uint32_t along = 0;         // of blocks that are sent along come, per mille; 0: none is sent
    uint32_t read_window = 0;   // bytes of reads in flight, at most; 0: any
    uint32_t copies_in_flight = 1;
    uint32_t block_bytes_max = 512;
    uint32_t actions_per_step = 1;
    uint32_t link_frames = 0;  // under way from one service process to another; 0: any number
    bool merge_wakes = false;  // a ring for a rank that is being woken already changes nothing
    uint32_t before_wrap = 0;  // so many of each kind of number come before that begins again; 0: all of them

    // Habits of the ranks, per mille.
    uint32_t broadcasts = 0;  // of operations, otherwise drawn
    uint32_t blocking = 300, staged = 0, in_place = 200, stable = 200, zero = 100, wait_early = 300;
    bool cooperative = true;
    bool any_order = false;  // each rank enters operations of different groups in an order of its own
    bool regions_per_buffer = false;

    // Times.
    uint64_t late_ns = 20000, very_late_ns = 0;  // very late: a few ranks
    uint64_t message_ns = 5000, move_ns = 2000, step_ns = 300, wake_ns = 2000;
    uint64_t core_wait_ns = 0;  // a service process that wakes up waits for its core
    uint64_t link_ns_per_byte =
        0;  // from one node to another, all its reads one after the other; 0: any number
    bool window_changes = false;  // read_window is drawn again whenever a read has ended

    // Faults, per mille; 0 is off.
    uint32_t again = 0, torn = 0, unreadable = 0, not_permitted = 0, import_fails = 0;
    bool wide_descriptors = false;  // 300 bytes, imported slowly
    uint32_t kills = 0;             // how many times a service process is killed
    uint32_t kill_phase = 0;        // a KillPhase, or 0: any moment
    bool restart = true;
    bool late_frames = false;  // a killed one's last frames arrive after its successor's first
    bool yields = false;       // service processes leave blocks to ranks that wait
    uint32_t lost_node = 0;    // + 1: it is gone for good, ranks and all; 0: none
    uint64_t lost_ns = 0;      // when

    // A service process that is lost for good at lost_ns, and how long ranks wait in vain before they give
    // an operation up, and its buffers.
    uint32_t lost_service = 0;  // + 1; 0: none, and nobody gives up
    uint64_t limit_ns = 0;

    // Ranks behind stand-ins: service processes are on a DPU, and ranks of a host copy from each other.
    bool dpus = false;
    uint32_t ends = 0;              // how many stand-ins, ranks or agents are killed
    uint32_t copying_ranks = 1000;  // that may read the others' memory, per mille
    uint32_t tested = 0;            // times that a rank looks before it computes, per mille
    uint32_t shared = 0;            // operations of shared blocks, otherwise drawn, per mille
    uint32_t handed_bytes = 1;      // blocks from this size on are copied by ranks
    uint64_t session_ns = 5000;     // for what a rank, its stand-in and the host's agent say to each other
    uint32_t agents = 0;            // hosts whose agents copy for ranks that compute, per mille

    // The last one given before the world begins, of numbers that count up to `max` and then begin again.
    uint64_t last_of(uint64_t max) const { return before_wrap == 0 ? 0 : max - before_wrap; }
    uint32_t last_count() const { return static_cast<uint32_t>(last_of(UINT32_MAX)); }
    // ... of those that are counted in pairs: its second one, which is even.
    uint32_t last_pair() const { return static_cast<uint32_t>(2 * last_of(UINT32_MAX / 2)); }
    bool is_wrapped(uint64_t number, uint64_t max) const { return before_wrap != 0 && number < max / 2; }

    bool faults() const { return again || unreadable || not_permitted || import_fails || kills; }
    // Nothing is lost: every wake-up and every byte counts.
    bool lossless() const { return !kills && !unreadable && !import_fails && !ends && !lost_service; }

    static WorldOptions draw(uint64_t seed, uint32_t version = kOptionsVersion);
    static WorldOptions large_world();
    // The same world where links are slow, service processes wait long for their cores, and what may be in
    // flight changes all the time, as a window that follows a link does.
    WorldOptions behind_slow_links() const;
    // The same world with many groups of few operations, which each rank enters in an order of its own before
    // it waits for any: as persistent collectives are started, each in a group of its own.
    WorldOptions in_any_order() const;
    // A world of fewer nodes whose ranks are served by DPUs.
    WorldOptions behind_dpus() const;
    // A world of few nodes, one of which loses a service process for good; some ranks come later than others
    // wait.
    WorldOptions with_ranks_that_give_up() const;
    WorldOptions made(Worlds worlds) const;
    std::string text() const;
};

}  // namespace longshore::sim
