// How many descriptors the processes of a job may have open (RLIMIT_NOFILE), and how many they need. A
// process that may have too few says so before anybody waits for it.
#pragma once

#include <cstdint>
#include <string>

namespace longshore {

// The calling process, and those that it starts, may have as many as the system lets them. Returns how many.
uint64_t raise_descriptor_limit();

// What a service process needs when it is connected to all others, by TCP or, where nodes share a machine, by
// sockets of it: two streams for each on other machines, three descriptors for each on this one; strangers at
// the door, doorbells, and what every process has.
uint64_t descriptors_of_service(uint32_t nodes, uint32_t services_per_node, bool by_tcp);
// What a supervisor needs: two for each rank; service processes, and strangers at the node's port.
uint64_t descriptors_of_supervisor(uint32_t ranks, uint32_t services);

// For the user: `who` ("a service process") needs so many, and may have only `limit`. What to do.
std::string too_few_descriptors(const std::string& who, uint64_t limit, uint64_t needed);
// Likewise, where one more could not be had just now.
std::string no_descriptor_left(const std::string& who);

}  // namespace longshore
