// What carries messages and bytes between machines. It needs libraries that a job on one machine does not, so
// it comes in parts of their own (longshore-tcp.so, longshore-ucx.so; beside longshored or in ../lib), of
// which a service process loads one when its job has several nodes, or runs on a DPU, and the agent on that
// DPU's host.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/network_settings.h"
#include "fabric/node_streams.h"
#include "fabric/shm/shm_fabric.h"

namespace longshore {

// By node and service process: where the network reaches them.
using ServiceBook = std::vector<std::vector<std::vector<std::byte>>>;

struct NetworkOptions {
    NodeMemory memory;
    ServiceAddress self;
    uint32_t incarnation = 1;
    std::vector<NodeAddress> nodes;  // by NodeId
    ServiceBook book;
    uint64_t limit_ns = 5'000'000'000;  // a peer whose successor has not come for so long is lost; so is one
                                        // silent for six times that
    uint64_t ahead_kept_ns = 1'000'000'000;  // blocks that have come ahead, if nobody reads them (TCP)
    bool staging_only = false;
    bool tls = false;
    // By node: where the network reaches the agent that has opened its ranks' memory. Empty: service
    // processes share memory with their ranks.
    std::vector<std::vector<std::byte>> agents;
    bool aliases = false;  // of that memory: bytes go from host to host, past service processes
};

// Service processes of other nodes.
uint64_t count_others(const NetworkOptions& options);

// A service process's part of its node's TCP port (fabric/tcp/node_port.h).
struct PortShare {
    Fd streams;  // on which connections come to it
    uint16_t port = 0;
    // It does not want to be reached.
    void close();
};

// A service process's end of the network, from before it knows its peers.
class Network {
  public:
    virtual ~Network() = default;
    // By which others reach it.
    virtual std::span<const std::byte> address() const = 0;
    // A fabric that uses `local` for what stays on the node. Once. Null on failure; `error` says why.
    virtual std::unique_ptr<Fabric> make_fabric(NetworkOptions options, std::unique_ptr<ShmFabric> local,
                                                std::string* error) = 0;
};

struct UcxOpening;

// Opens memory of this process to whom the network lets in (fabric/dpu has who reads and writes it). Where
// the network cannot do that alone, its progress carries out what others ask for. One thread.
class MemoryAgent {
  public:
    virtual ~MemoryAgent() = default;
    // By which others reach it.
    virtual std::span<const std::byte> address() const = 0;
    // Readable when there may be something to progress, once arm() has said true.
    virtual int event_fd() const = 0;
    // False: there is something to progress now.
    virtual bool arm() = 0;
    // Whether anything was done.
    virtual bool progress() = 0;
    // Until close_memory(); `key` is what others need. Null: not possible; `error` says why.
    virtual UcxOpening* open_memory(std::span<std::byte> memory, std::vector<std::byte>* key,
                                    std::string* error) = 0;
    virtual void close_memory(UcxOpening* opening) = 0;
    // What others make an alias of it from. False: not possible, or the agent was opened without.
    virtual bool export_memory(const UcxOpening* opening, std::vector<std::byte>* exported,
                               std::string* error) = 0;
};

// What the part exports under kNetworkSymbol. Both sides are of one build: `build` says so.
struct NetworkPart {
    const char* build;
    size_t layout;             // of what is handed over
    const char* (*library)();  // which it uses, and its version: "UCX 1.13.1"
    // UCX needs no share of a port.
    std::unique_ptr<Network> (*open)(const NetworkSettings& settings, PortShare share, std::string* error);
    std::unique_ptr<MemoryAgent> (*open_agent)(bool exports, std::string* error);
    // Whether memory that an agent exports can have an alias here: empty, or why not. `region`: a descriptor
    // of some (dpu/transport/host_region.h). With some cards UCX ends the process.
    std::string (*try_alias)(std::span<const std::byte> region);
    const NodeStreams* streams;  // null: there are none
};
constexpr const char* kNetworkSymbol = "longshore_network";
enum class NetworkKind : uint8_t { kTcp, kUcx };

// The part's file for a program in `directory` (which ends with a slash); LONGSHORE_INTERNAL_NETWORK names
// another, whatever the kind. Empty: there is none.
std::string find_network(NetworkKind kind, const std::string& directory);
// Null: it cannot be loaded, or is not of this build; `error` says why and what to do.
const NetworkPart* load_network(const std::string& file, std::string* error);
// That of the program that runs.
const NetworkPart* load_own_network(NetworkKind kind, std::string* error);

// A network card of this machine reaches others' memory by itself, by the word of the system.
bool has_rdma_device();
// Whether a job's service processes may come to use TCP, so that their node has a port.
bool may_use_tcp(const NetworkSettings& settings, bool for_host_memory);
// The network of a service process: with NetworkChoice::kAuto those that this machine has, of which
// make_fabric() takes the best that all service processes have. `for_host_memory`: ranks' memory is on other
// machines, which takes UCX. Null: `error` says why.
std::unique_ptr<Network> open_own_network(const NetworkSettings& settings, bool for_host_memory,
                                          PortShare share, std::string* error);

// By the addresses of all service processes: what make_fabric() of open_own_network() takes in each of them.
// With TCP, `mbps` becomes the speed of the interface of `node` on which the node after it reaches it; 0: not
// known. False: the addresses are not what service processes say.
bool look_at_network(const NetworkSettings& settings, bool for_host_memory, const ServiceBook& book,
                     size_t node, NetworkKind* kind, uint32_t* mbps);

// Several addresses of one service process in one piece, and back. False: not `count` of them.
void append_address(std::span<const std::byte> address, std::vector<std::byte>* all);
bool split_addresses(std::span<const std::byte> all, size_t count, std::vector<std::vector<std::byte>>* out);

// Which build of this project the caller is of.
const char* build_name();
constexpr size_t kNetworkLayout = sizeof(ShmFabric) * 4096 + sizeof(NetworkOptions) + sizeof(PortShare);

}  // namespace longshore
