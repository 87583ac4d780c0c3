// What a stand-in on a DPU does beyond host.h: regions of its rank's memory, and operations that are planned
// already.
#pragma once

#include <vector>

#include "dpu/transport/host_region.h"
#include "host/context.h"

namespace longshore {

// Describes a region of the rank's memory, or does so anew; no open operation uses it. The node is set here.
// False: there is no such region, or its key is too long.
bool publish_region_of_rank(ls_context& context, RegionId region, HostRegion description);

// As ls_operation_start. Buffers are in published regions; `data`: what is sent, if it is small. Group, rank
// and sequence of the arguments are set here, and pointers to blocks, which are the plan's.
int start_for_rank(ls_group* group, const OperationArguments& arguments, Plan plan,
                   std::vector<std::byte> data, ls_operation** out);

// Whether it is worth a look (ls_operation_test): it has been entered, or is to be given up as a service
// process is gone. Others wait for older ones of their group (ls_advance).
bool may_be_over(const ls_operation* operation);

// A chunk of an operation that hands over, claimed for its rank, and what that has to copy: of rank `giver`
// of the job, from there in its heap to there in the operation's receive buffer, or in the rank's own heap.
// False: there is none now.
struct RankCopy {
    Copy copy;
    uint32_t giver = 0;
    uint64_t from = 0, to = 0, to_in_heap = 0;
};
bool claim_for_rank(ls_operation* operation, RankCopy* out);
// The rank has copied it, or cannot. Its operation may have ended meanwhile.
void finish_for_rank(ls_context& context, const Copy& copy, bool ok);
// Whether all that the operation lacks is there to be copied.
bool is_all_there(ls_operation* operation);
// What is left of the operation is copied by service processes, or by its rank again.
void leave_to_services(ls_operation* operation, bool leave);

// The stand-in ends with operations open, because its rank has gone: its node goes on without it.
void leave_node(const ls_context& context);

}  // namespace longshore
