// Which DPU serves a host: what LONGSHORE_DPU says. One of
//   HOST[:PORT]                       %h in it stands for the host's short name: "%h-bf3"
//   host1=dpu1[:PORT],host2=dpu2      a list of hosts
//   @FILE                             a file with a line "host dpu[:PORT]" for each host; # begins a comment
// HOST is a name or an address, one of IPv6 in brackets. A host is known by its full or its short name.
// Used inside foreign processes too: no exception leaves these functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longshore {

// "node7" of "node7.cluster.example".
std::string_view short_host_name(std::string_view host);

// HOST[:PORT] as above, without %h, in its parts, without brackets. False: it is none.
struct DpuAddress {
    std::string_view host;
    uint16_t port = 0;  // 0: it says none
};
bool split_dpu_address(std::string_view text, DpuAddress* out);
bool is_dpu_address(std::string_view text);

// The address of `host`'s DPU, as it is written. False, and why: there is none, or the setting is not valid.
// All of a list or file must be valid, so that every host says the same of it. `setting` must not be empty.
bool find_dpu(const std::string& setting, const std::string& host, std::string* address, std::string* error);

}  // namespace longshore
