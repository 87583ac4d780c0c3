// What is used of UCX, and all that includes its headers: one worker, endpoints to other workers, active
// messages of a header and a payload. A large payload is offered: it stays with its sender until the receiver
// says where it wants it, and UCX brings it there by the best way that the network has, without copies on the
// way. And memory that a worker opens to others can be read and written by who has its key, by the network
// alone where that can (RDMA), else with the help of the worker's progress. Where cards can, and UCX is 1.15
// or newer, that memory can also stand for memory of a worker elsewhere (an alias), so that its card moves
// bytes there by itself. One thread. UCX's own messages are not checked here: a header may hold anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace longshore {

// The connection to another worker, until close() or until the worker goes.
struct UcxEndpoint;
// A payload that waits at its sender.
using UcxOffer = void*;
// Memory that is open to others, and what one of those needs to reach it.
struct UcxOpening;
struct UcxKey;
// Memory of another process that stands for memory of this one.
struct UcxAlias;

class UcxWorker {
  public:
    static constexpr size_t kHeaderBytesMax = 128;

    // Who is told what happens; calls come out of progress(), send() and take(), and must not call the worker
    // again.
    class Listener {
      public:
        virtual ~Listener() = default;
        // A message of anybody who can reach this machine. Both parts are borrowed for the call.
        virtual void on_message(std::span<const std::byte> header, std::span<const std::byte> payload) = 0;
        // A message whose payload is to be taken or declined later.
        virtual void on_offer(std::span<const std::byte> header, uint64_t bytes, UcxOffer offer) = 0;
        // What was offered is there; not `ok`: it will not come.
        virtual void on_taken(uint64_t id, bool ok) = 0;
        // A payload lent to send() is the caller's again.
        virtual void on_sent(uint64_t lent) = 0;
        // A get() has its bytes here, those of a put() are there; not `ok`: nobody knows how far it came.
        virtual void on_reached(uint64_t id, bool ok) = 0;
        // Nothing goes to that endpoint any more. Once.
        virtual void on_broken(UcxEndpoint* endpoint) = 0;
    };

    // What a worker is for: messages, or to reach memory, or to do that by aliases, too. The last is asked
    // for only where it may succeed: UCX then takes no way that registers no memory.
    enum class Use : uint8_t { kMessages, kMemory, kAliases };
    // Null on failure; `error` says why.
    static std::unique_ptr<UcxWorker> create(std::string* error, Use use = Use::kMessages);
    ~UcxWorker();
    // Before the first progress().
    void set_listener(Listener* listener) { listener_ = listener; }

    // By which other workers connect; it names every network device that can be used.
    std::span<const std::byte> address() const;
    // Some way that it has can move bytes between memories by the network's card alone.
    bool has_rdma() const { return has_rdma_; }
    // Readable when there may be something to progress, once arm() has said true.
    int event_fd() const { return event_fd_; }
    // False: there is something to progress now.
    bool arm();
    // Whether anything was done.
    bool progress();

    // Null: the address means nothing here. Messages may be sent at once.
    UcxEndpoint* connect(std::span<const std::byte> address);
    void close(UcxEndpoint* endpoint);
    // Messages to one endpoint arrive in order. The header is copied; so is the payload where `lent` is 0,
    // else it is borrowed until on_sent(lent). False: the endpoint is broken, and nothing was taken.
    bool send(UcxEndpoint* endpoint, std::span<const std::byte> header, std::span<const std::byte> payload,
              uint64_t lent = 0) {
        return send(endpoint, header, payload, lent, false);
    }
    // As send(), but the payload, of 1 byte or more, is borrowed until it was taken or declined. Offers do
    // not keep to the order of messages.
    bool offer(UcxEndpoint* endpoint, std::span<const std::byte> header, std::span<const std::byte> payload,
               uint64_t lent) {
        return send(endpoint, header, payload, lent, true);
    }
    // Brings all of it to `to`, which is as large and borrowed until on_taken(id). Not called by the
    // listener.
    void take(UcxOffer offer, std::span<std::byte> to, uint64_t id);
    void decline(UcxOffer offer);

    // But for Use::kMessages. Opens memory to whoever gets the key, which means nothing to others than peers
    // of this worker; until close_memory() or until the worker goes. Null: not possible.
    UcxOpening* open_memory(std::span<std::byte> memory, std::vector<std::byte>* key, std::string* error);
    void close_memory(UcxOpening* opening);
    // For Use::kAliases: what others make an alias of it from (an ExportedMemory of
    // exported_memory.h). False: not possible.
    bool export_memory(const UcxOpening* opening, std::vector<std::byte>* exported, std::string* error);
    // Until forget_alias(), with nothing under way, or until the worker goes. Null: it was not made by the
    // same UCX, is not of all these bytes, or no card of this machine can take it.
    UcxAlias* import_alias(std::span<const std::byte> exported, uint64_t address, uint64_t bytes,
                           std::string* error);
    void forget_alias(UcxAlias* alias);
    // Null: not a key of the worker that the endpoint leads to.
    UcxKey* import_key(UcxEndpoint* endpoint, std::span<const std::byte> key);
    // Nothing is under way with it.
    void forget_key(UcxKey* key);
    // From and to memory as addressed by who has opened it. Ends in on_reached(id), perhaps before it
    // returns; bytes here are borrowed until then. With an alias `to` is within it, as its owner addresses
    // it.
    void get(UcxEndpoint* endpoint, UcxKey* key, uint64_t from, std::span<std::byte> to, uint64_t id,
             const UcxAlias* alias = nullptr);
    void put(UcxEndpoint* endpoint, UcxKey* key, std::span<const std::byte> from, uint64_t to, uint64_t id);
    // Messages that have not left yet.
    size_t sending() const { return sending_; }

  private:
    UcxWorker();
    bool start(Use use, std::string* error);
    static bool is_connecting(UcxEndpoint* endpoint);
    void close_now(std::unique_ptr<UcxEndpoint> endpoint);
    bool send(UcxEndpoint* endpoint, std::span<const std::byte> header, std::span<const std::byte> payload,
              uint64_t lent, bool offered);
    friend struct UcxCalls;  // the functions that UCX calls

    struct Inside;
    struct Sending;
    struct Taking;
    struct Reaching;
    std::unique_ptr<Inside> inside_;
    Listener* listener_ = nullptr;
    Use use_ = Use::kMessages;
    int event_fd_ = -1;
    bool has_rdma_ = false;
    size_t sending_ = 0;
    std::vector<std::unique_ptr<Sending>> free_;
    std::vector<std::unique_ptr<Taking>> free_takings_;
    std::vector<std::unique_ptr<Reaching>> free_reachings_;
};

// As the library that is loaded says it: "1.13.1".
std::string ucx_version();

}  // namespace longshore
