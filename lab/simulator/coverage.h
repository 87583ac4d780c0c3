// What a world has come across. Floors of a campaign are in seeds, so most of these are 0 or 1 per world.
#pragma once

#include <cstdint>

namespace longshore::sim {

struct Coverage {
    uint64_t worlds, crowded_worlds, handed_on, parked, rescued, in_place, contended, killed_before_landed,
        killed_before_acknowledged, pool_full, late_arrivals, restarted, stale_messages, resent, duplicates,
        gathered, scattered, root_in_place, errors, rank_only, finished_alone, staged, staged_for_others,
        relayed, relays_refused, landed, taken_copies, taken_reads, along, evicted, asked_again, lost_nodes,
        lost_operations, outlived_loss, events, operations, copies, reads, bytes_between_nodes, handed_copies,
        left_to_services, taken_back, lost_stand_ins, lost_processes, agent_copies, lost_agents,
        outlived_ranks, lost_services, given_up, given_up_early, outlived_giving_up, wrapped_generations,
        wrapped_waits, wrapped_copies;
};

struct CoverageRow {
    const char* name;
    uint64_t Coverage::*count;
    uint64_t floor;                   // per 20,000 seeds; 0: shown only
    uint64_t floor_of_dpus = 0;       // the same of worlds with DPUs, where other things happen
    uint64_t floor_of_giving_up = 0;  // ... and of worlds with ranks that give up
};
constexpr CoverageRow kCoverageRows[] = {
    {"worlds", &Coverage::worlds, 0},
    {"worlds with more than 8 ranks on more than 2 nodes", &Coverage::crowded_worlds, 6000},
    {"seeds: handed on", &Coverage::handed_on, 500},
    {"seeds: parked", &Coverage::parked, 500},
    {"seeds: rescued", &Coverage::rescued, 500},
    {"seeds: in place", &Coverage::in_place, 500},
    {"seeds: gather(v) from other nodes", &Coverage::gathered, 2000},
    {"seeds: scatter(v) to other nodes", &Coverage::scattered, 2000},
    {"seeds: root of gather(v) or scatter(v) in place", &Coverage::root_in_place, 500},
    {"seeds: rank and service process contend for a claim", &Coverage::contended, 500},
    {"seeds: service process killed between data and landed bit", &Coverage::killed_before_landed, 500},
    {"seeds: service process killed between landed bit and acknowledgement",
     &Coverage::killed_before_acknowledged, 500},
    {"seeds: pool full", &Coverage::pool_full, 500},
    {"seeds: late arrivals", &Coverage::late_arrivals, 0},
    {"seeds: service process restarted", &Coverage::restarted, 0},
    {"seeds: stale messages dropped", &Coverage::stale_messages, 500},
    {"seeds: notified again", &Coverage::resent, 0},
    {"seeds: duplicates dropped", &Coverage::duplicates, 0},
    {"seeds: operations ended in an error", &Coverage::errors, 0},
    {"seeds: left to the ranks", &Coverage::rank_only, 0},
    {"seeds: ranks finished alone", &Coverage::finished_alone, 0},
    {"seeds: staged", &Coverage::staged, 500},
    {"seeds: landed in shared memory", &Coverage::landed, 500},
    {"seeds: staged for several ranks of a node", &Coverage::staged_for_others, 500},
    {"seeds: chunks of a broadcast from another service process", &Coverage::relayed, 500},
    {"seeds: a parent in a broadcast passed", &Coverage::relays_refused, 500},
    {"seeds: copies taken by an idle service process", &Coverage::taken_copies, 500},
    {"seeds: reads taken by an idle service process", &Coverage::taken_reads, 500},
    {"seeds: reads of blocks that were sent along", &Coverage::along, 500},
    {"seeds: a region made room for another", &Coverage::evicted, 500},
    {"seeds: a region was asked for again", &Coverage::asked_again, 500},
    {"seeds: node lost for good while others work", &Coverage::lost_nodes, 500},
    {"seeds: operations ended in an error by that", &Coverage::lost_operations, 500},
    {"seeds: operations ended right after that", &Coverage::outlived_loss, 500},
    {"seeds: ranks copied from each other for their stand-ins", &Coverage::handed_copies, 0, 10000},
    {"seeds: a rank computed for longer than its stand-in was patient", &Coverage::left_to_services, 0, 300},
    {"seeds: and copied what was left when it waited", &Coverage::taken_back, 0, 200},
    {"seeds: the agent of a host copied for ranks that computed", &Coverage::agent_copies, 0, 300},
    {"seeds: agent lost with copies that it had to make", &Coverage::lost_agents, 0, 10},
    {"seeds: stand-in lost", &Coverage::lost_stand_ins, 0, 500},
    {"seeds: rank behind a stand-in lost", &Coverage::lost_processes, 0, 500},
    {"seeds: its memory read or written all the same", &Coverage::outlived_ranks, 0, 100},
    {"seeds: service process lost for good", &Coverage::lost_services, 0, 0, 17000},
    {"seeds: ranks gave operations up", &Coverage::given_up, 0, 0, 14000},
    {"seeds: before there was room for them", &Coverage::given_up_early, 0, 0, 2000},
    {"seeds: others of their groups ended operations well after that", &Coverage::outlived_giving_up, 0, 0,
     12000},
    {"seeds: generations of records began again", &Coverage::wrapped_generations, 2000, 2000, 2000},
    {"seeds: serial numbers of waits began again", &Coverage::wrapped_waits, 0, 300},
    {"seeds: numbers of copies began again", &Coverage::wrapped_copies, 0, 2000},
    {"events", &Coverage::events, 0},
    {"operations (per rank)", &Coverage::operations, 0},
    {"chunks copied by service processes", &Coverage::copies, 0},
    {"blocks read between nodes", &Coverage::reads, 0},
    {"bytes between nodes", &Coverage::bytes_between_nodes, 0},
};

}  // namespace longshore::sim
