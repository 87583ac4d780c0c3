// Ranks that say anything to the agent of their machine (fabric/shm/agent_control.h), by real sockets: only
// memory that a rank has given may be opened to the network, all of it must be there for as long as it is
// open, and nothing stays open when all ranks have gone.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "conversation.h"
#include "fabric/dpu/host_region.h"
#include "service/agent_ranks.h"

namespace {

using namespace longshore;
using namespace longshore::fuzz;

constexpr uint64_t kHeapBytes = 64 * 4096;
constexpr size_t kClientsMax = 4;
uint64_t got_far = 0;

// In the network's place. What is open is memory that this process can write, all of it.
class Network : public MemoryAgent {
  public:
    explicit Network(Choices* choices) : choices_(*choices) {}
    std::span<const std::byte> address() const override { return {}; }
    int event_fd() const override { return -1; }
    bool arm() override { return true; }
    bool progress() override { return false; }
    UcxOpening* open_memory(std::span<std::byte> memory, std::vector<std::byte>* key,
                            std::string* error) override {
        *error = "no";
        if (choices_.one_in(16)) return nullptr;
        require(!memory.empty());
        key->resize(1 + choices_.below(kHostKeyBytesMax + 8));
        auto* opening = new std::span<std::byte>(memory);
        open_.insert(opening);
        ++ever_;
        touch(memory);
        return reinterpret_cast<UcxOpening*>(opening);
    }
    void close_memory(UcxOpening* opening) override {
        auto* const memory = reinterpret_cast<std::span<std::byte>*>(opening);
        require(open_.erase(memory) == 1);
        delete memory;
    }
    bool export_memory(const UcxOpening* opening, std::vector<std::byte>* exported, std::string*) override {
        require(open_.contains(
            const_cast<std::span<std::byte>*>(reinterpret_cast<const std::span<std::byte>*>(opening))));
        if (choices_.byte() % 2 != 0) exported->resize(kExportedBytesMax);
        return !exported->empty();
    }
    // As a card might at any moment.
    void touch_all() const {
        for (const auto* memory : open_) touch(*memory);
    }
    size_t open() const { return open_.size(); }
    uint64_t ever() const { return ever_; }

  private:
    static void touch(std::span<std::byte> memory) {
        auto* const bytes = const_cast<volatile std::byte*>(memory.data());
        bytes[0] = bytes[memory.size() - 1];
        bytes[memory.size() - 1] = bytes[0];
    }
    Choices& choices_;
    std::set<std::span<std::byte>*> open_;
    uint64_t ever_ = 0;
};

class Conversation {
  public:
    explicit Conversation(Choices choices)
        : choices_(choices),
          network_(&choices_),
          ranks_(&network_, token(), [](const Fd&) { return true; }) {}
    void run() {
        connect();
        while (!choices_.over()) {
            step();
            network_.touch_all();
        }
        got_far += network_.ever() != 0;
        ends_.clear();
        ranks_.turn();
        require(ranks_.connections() == 0 && ranks_.now() == 0 && network_.open() == 0);
    }

  private:
    static Token token() {
        Token token;
        token.fill(7);
        return token;
    }
    void connect() {
        int ends[2];
        if (ends_.size() == kClientsMax ||
            socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
            return;
        ranks_.add(Fd(ends[0]));
        ends_.emplace_back(ends[1]);
        if (!choices_.one_in(4)) hello(ends_.back());
    }
    void step() {
        if (ends_.empty()) return connect();
        Fd& rank = ends_[choices_.byte() % ends_.size()];
        switch (choices_.byte() % 12) {
            case 0:
                return connect();
            case 1:
                if (choices_.one_in(4)) ends_.erase(ends_.begin() + (&rank - ends_.data()));
                return;
            case 2:
                return ranks_.turn();
            case 3:
                return hear(rank);
            case 4:
                return hello(rank);
            case 5:
                return send(rank, last_);
            case 6:
            case 7: {
                AgentClose close;
                close.id = choices_.byte() % 6;
                return send(rank, bytes_of(close));
            }
            default: {
                AgentOpen open;
                open.id = choices_.byte() % 6;
                open.offset = 4096 * uint64_t{choices_.byte()} % kHeapBytes;
                open.bytes = 1 + choices_.below(static_cast<uint32_t>(
                                     std::min<uint64_t>(kHeapBytes - open.offset, 60000)));
                if (choices_.one_in(8)) open.offset = choices_.number();
                if (choices_.one_in(8)) open.bytes = choices_.number();
                if (choices_.one_in(16))
                    open.bytes = 0 - open.offset + choices_.byte();  // their sum is small
                open.exports = choices_.byte() % 2;
                return send(rank, bytes_of(open));
            }
        }
    }
    // Mostly of memory that cannot shrink, and may grow.
    void hello(Fd& rank) {
        Fd file(memfd_create("fuzz-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        if (ftruncate(file.get(), kHeapBytes) != 0 || fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
            return;
        AgentHello hello;
        hello.token = token();
        if (choices_.one_in(8)) {
            file = Fd(memfd_create("fuzz-open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
            if (ftruncate(file.get(), kHeapBytes) != 0) return;
        }
        const size_t many = choices_.one_in(8) ? choices_.byte() % 3 : 1;
        send(rank, bytes_of(hello), std::vector<int>(many, file.get()));
        // A file that can shrink is refused: what is read of it then would end the agent.
        [[maybe_unused]] const int shrunk = ftruncate(file.get(), 0);
        if (choices_.one_in(4)) [[maybe_unused]]
            const int grown = ftruncate(file.get(), static_cast<off_t>(choices_.number() >> 20));
    }
    void send(Fd& rank, std::vector<std::byte> packet, const std::vector<int>& descriptors = {}) {
        last_ = packet;
        damage(choices_, &packet);
        if (!packet.empty()) send_packet(rank, packet.data(), packet.size(), descriptors);
        if (!choices_.one_in(4)) ranks_.turn();
    }
    void hear(Fd& rank) {
        std::byte bytes[kAgentPacketBytesMax];
        size_t count = 0;
        while (receive_packet(rank, bytes, sizeof bytes, &count, nullptr) == Io::kOk) {
            AgentAnswer answer;
            require(count >= sizeof answer);
            memcpy(static_cast<void*>(&answer), bytes, sizeof answer);
            require(answer.key_bytes <= kHostKeyBytesMax && answer.exported_bytes <= kExportedBytesMax &&
                    count == sizeof answer + answer.key_bytes + answer.exported_bytes);
        }
    }

    Choices choices_;
    Network network_;
    AgentRanks ranks_;
    std::vector<Fd> ends_;
    std::vector<std::byte> last_;
};

}  // namespace

extern "C" uint64_t fuzz_conversations_that_got_far() {
    return got_far;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Conversation(Choices(data, size)).run();
    return 0;
}
