// Where the nodes of a job are reached: what the supervisor of each node says of it once (NodeEntry), and all
// of it together (AddressBook). One encoder and one decoder serve the ranks that tell it each other, their
// supervisors, and the service processes in the end. Whatever is decoded is checked. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/network.h"

namespace longshore {

// What is alike on all nodes of a job.
struct JobShape {
    uint32_t nodes = 1;
    uint16_t services = 1;  // of each node
    bool network = false;   // nodes reach each other over a network
    bool agents = false;    // ranks are on other machines, each of which has an agent
};

struct NodeEntry {
    NodeAddress address;
    // By service process: where the network reaches it. Empty: there is no network.
    std::vector<std::vector<std::byte>> services;
    std::vector<std::byte> agent;  // where it reaches the agent of the ranks' machine; empty: there is none
    std::vector<std::byte> tasks;  // where it takes tasks of other nodes (tcp/addresses.h); empty: nowhere
};

// An encoded entry has at most so many bytes.
constexpr size_t kEntryBytesMax = 40 * 1024;

// Empty: it would be longer than kEntryBytesMax, or its name is not one of make_secret().
std::vector<std::byte> encode_entry(const NodeEntry& entry);
// False: not what encode_entry() makes.
bool decode_entry(std::span<const std::byte> bytes, NodeEntry* out);

class AddressBook {
  public:
    AddressBook() : AddressBook(JobShape{}) {}
    explicit AddressBook(const JobShape& shape) : shape_(shape) {}

    // The entry of the next node. False: it is no entry of a node of such a job, and nothing has changed.
    bool add(std::span<const std::byte> entry);
    bool is_whole() const { return entries_.size() == shape_.nodes; }

    // Packets of ControlKind::kAddressBook, of at most kControlBytesMax bytes each, that tell the whole book,
    // and whether service processes have aliases of their ranks' memory on all nodes.
    std::vector<std::vector<std::byte>> packets() const;
    // The next of them. False: it is not, and nothing has changed.
    bool take(std::span<const std::byte> packet);

    // By node; of a whole book.
    std::vector<NodeAddress> nodes() const;
    ServiceBook services() const;
    std::vector<std::vector<std::byte>> agents() const;
    std::vector<std::byte> tasks(size_t node) const { return entry(node).tasks; }

    bool aliases = false;

  private:
    bool is_of_job(std::span<const std::byte> entry) const;
    NodeEntry entry(size_t node) const;

    JobShape shape_;
    std::vector<std::vector<std::byte>> entries_;  // by node, as encode_entry() makes them
};

}  // namespace longshore
