// Ranks that say anything to the agent of their machine (dpu/host_agent/agent_control.h), by real sockets:
// only memory that a rank has given may be opened to the network, all of it must be there for as long as it
// is open, and nothing stays open when all ranks have gone. Some of them open pools of tasks on the DPU
// (tasks/control.h), which the agent's real pools hear; the carriers are played (played_carrier.cc). A pool
// is for ranks alone, is answered once, and neither a process nor a descriptor is left of it.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "conversation.h"
#include "dpu/host_agent/agent_ranks.h"
#include "dpu/transport/host_region.h"
#include "tasks/pools.h"

namespace {

using namespace longshore;
using namespace longshore::fuzz;

constexpr uint64_t kHeapBytes = 64 * 4096;
constexpr size_t kClientsMax = 4;
constexpr uint32_t kRanks = 2;
constexpr int kTurnsMax = 100;        // of a millisecond, until a pool is answered
constexpr int kEndTurnsMax = 60'000;  // ... until what was killed has ended, on a machine that is busy
uint64_t got_far = 0;

// In the network's place. What is open is memory that this process can write, all of it.
class Network : public MemoryAgent {
  public:
    explicit Network(Choices* choices) : choices_(*choices) {}
    // Of ranks that went without a word.
    ~Network() override {
        for (const auto* memory : open_) delete memory;
    }
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

size_t descriptors_now() {
    size_t count = 0;
    if (DIR* const list = opendir("/proc/self/fd")) {
        while (readdir(list) != nullptr) ++count;
        closedir(list);
    }
    return count;
}

struct Rank {
    Fd socket;
    bool asked = false;  // for a pool, on this connection
    bool closes = false;
    uint32_t opened = 0, refused = 0, closed = 0;
};

class Conversation {
  public:
    explicit Conversation(Choices choices)
        : choices_(choices),
          network_(&choices_),
          pools_(make_node()),
          ranks_(
              &network_, token(), [](const Fd&, uint32_t) { return true; },
              [this](Fd socket, pid_t pid, const tasks::OpenPool& request, std::vector<Fd> descriptors) {
                  // Of one that has said hello on another connection, which is there.
                  require(ranks_.now() != 0 && pid == getpid() && request.token == token());
                  pools_.open(std::move(socket), pid, request, std::move(descriptors));
              }) {}
    void run() {
        connect();
        while (!choices_.over()) {
            step();
            network_.touch_all();
        }
        got_far += network_.ever() != 0 || is_served_;
        for (Rank& rank : ends_) hear(rank);
        ends_.clear();
        // A child that has not become a carrier yet has them, too.
        for (int turns = 0; turns == 0 || (ranks_.connections() != 0 && turns < kEndTurnsMax); ++turns) {
            if (turns != 0) usleep(1000);
            ranks_.turn();
        }
        require(ranks_.connections() == 0 && ranks_.now() == 0);
        network_.touch_all();
        turn_pools();
        pools_.stop();
        // Carriers of pools that were closed have been killed, too; that can take them a moment.
        for (int turns = 0; waitpid(-1, nullptr, WNOHANG) != -1; ++turns) {
            require(turns < kEndTurnsMax);
            usleep(1000);
        }
    }

  private:
    static tasks::TaskPools::Node make_node() {
        tasks::TaskPools::Node node;
        node.rank_count = kRanks;
        node.restarts_max = 2;
        node.program = PLAYED_CARRIER;
        node.place = [](const char*, uint32_t processes, uint32_t, std::string*) {
            return std::vector<tasks::TaskPlace>(processes);
        };
        node.find_node = [](const char* name, tasks::FarNode* far, std::string* error) {
            *error = "not there";
            far->is_far = far->is_dpu = 1;
            return std::string(name) == "dpu";
        };
        node.tell = [](const char* text) { require(*text != 0); };
        return node;
    }
    void turn_pools() {
        pools_.turn();
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) require(pools_.reap(pid, status));
    }
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
        ends_.emplace_back().socket = Fd(ends[1]);
        if (!choices_.one_in(4)) hello(ends_.back());
    }
    void step() {
        if (ends_.empty()) return connect();
        Rank& rank = ends_[choices_.byte() % ends_.size()];
        switch (choices_.byte() % 18) {
            case 0:
                return connect();
            case 1:
                if (choices_.one_in(4)) ends_.erase(ends_.begin() + (&rank - ends_.data()));
                return;
            case 2:
                turn_pools();
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
            case 8:
                return open_pool(rank);
            case 9:
                rank.closes = true;
                return send(rank, bytes_of(tasks::TaskHeader{kControlMagic, tasks::TaskMessage::kClose}));
            case 10:
                return send(rank, bytes_of(tasks::TaskHeader{
                                      kControlMagic, static_cast<tasks::TaskMessage>(
                                                         static_cast<uint32_t>(tasks::TaskMessage::kOpen) +
                                                         choices_.byte() % 12)}));
            case 11: {
                AgentCopies said;
                said.rank = choices_.byte() % 4;
                said.copies = choices_.byte() % 2;
                said.word_address =
                    choices_.one_in(2) ? reinterpret_cast<uint64_t>(&said.word) : choices_.number();
                said.word = choices_.byte();
                return send(rank, bytes_of(said));
            }
            case 12:
                return send(rank, bytes_of(AgentStopCopies{}));
            case 13:
                return send(rank, choices_.one_in(2) ? bytes_of(AgentWithdraw{}) : bytes_of(AgentLeave{}));
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
    void hello(Rank& rank) {
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
    // On a connection of its own, as ranks do, or on any.
    void open_pool(Rank& any) {
        Rank* rank = &any;
        if (!choices_.one_in(4) && ends_.size() < kClientsMax) {
            int ends[2];
            if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
            ranks_.add(Fd(ends[0]));
            ends_.emplace_back().socket = Fd(ends[1]);
            rank = &ends_.back();
        }
        tasks::OpenPool request;
        request.token = token();
        if (choices_.one_in(16)) request.token[choices_.byte() % request.token.size()] ^= 1;
        request.local_rank = choices_.byte() % (kRanks + (choices_.one_in(8) ? 1 : 0));
        request.processes =
            choices_.one_in(16) ? static_cast<uint32_t>(choices_.number()) : choices_.byte() % 4;
        request.threads = choices_.one_in(8) ? static_cast<uint32_t>(choices_.number()) : 1;
        request.heap = {choices_.number(), choices_.number()};
        request.has_heap = choices_.byte() % 2;
        request.has_stderr = choices_.byte() % 2;
        request.environment_bytes = choices_.one_in(4) ? static_cast<uint32_t>(choices_.number()) : 12;
        memcpy(request.environment, "A=B\0NO_VALUE", 12);
        // What the carrier does stands in the plug-in's name.
        static constexpr const char* kPlugins[] = {
            "/p/loads.so", "/p/loads.so",         "/p/refuses.so", "/p/ends.so",
            "/p/wild.so",  "/p/leaves_nobody.so", "/p/silent.so",  ""};
        snprintf(request.plugin, sizeof request.plugin, "%s",
                 kPlugins[choices_.byte() % std::size(kPlugins)]);
        snprintf(request.node, sizeof request.node, "%s", choices_.one_in(8) ? "next" : "dpu");
        if (choices_.one_in(8)) fill_text(&request);
        const size_t wanted = request.has_heap + request.has_stderr;
        const size_t many = choices_.one_in(8) ? choices_.byte() % 4 : wanted;
        const Fd file(memfd_create("fuzz-pool", MFD_CLOEXEC));
        rank->asked = true;
        send(*rank, bytes_of(request), std::vector<int>(many, file.get()));
        ranks_.turn();
        for (int turns = 0; turns < kTurnsMax && is_waiting_; ++turns) {
            pollfd ready{pools_.fd(), POLLIN, 0};
            poll(&ready, 1, 1);
            turn_pools();
            hear(*rank);
        }
    }
    // Without an end.
    void fill_text(tasks::OpenPool* request) {
        const std::span<char> all[] = {request->plugin, request->directory, request->cores, request->node,
                                       request->environment};
        const std::span<char> one = all[choices_.byte() % std::size(all)];
        memset(one.data(), 'x', one.size());
    }
    void send(Rank& rank, std::vector<std::byte> packet, const std::vector<int>& descriptors = {}) {
        last_ = packet;
        damage(choices_, &packet);
        if (!packet.empty()) send_packet(rank.socket, packet.data(), packet.size(), descriptors);
        if (choices_.one_in(4)) return;
        ranks_.turn();
        turn_pools();
    }
    void hear(Rank& rank) {
        static std::byte bytes[kControlBytesMax];
        size_t count = 0;
        std::vector<Fd> given;
        Io io = Io::kAgain;
        while ((io = receive_packet(rank.socket, bytes, sizeof bytes, &count, &given)) == Io::kOk) {
            hear_packet(rank, std::span(bytes).first(count), given.size());
            given.clear();
        }
        is_waiting_ = rank.asked && io == Io::kAgain && rank.opened + rank.refused == 0;
    }
    void hear_packet(Rank& rank, std::span<const std::byte> bytes, size_t descriptors) {
        tasks::PoolOpened opened;
        tasks::TaskHeader closed{kControlMagic, tasks::TaskMessage::kClosed};
        if (tasks::take_packet(bytes.data(), bytes.size(), &opened)) {
            require(rank.asked && ++(opened.error == 0 ? rank.opened : rank.refused) == 1);
            require(rank.opened + rank.refused == 1 && opened.text[sizeof opened.text - 1] == 0);
            require(opened.error != 0 ? opened.text[0] != 0 : opened.processes >= 1);
            require(descriptors == 2 * (opened.error == 0 ? opened.processes : 0));
            require(opened.table.functions_count <= tasks::kFunctionsMax);
            is_served_ |= opened.error == 0;
        } else if (bytes.size() == sizeof closed && memcmp(bytes.data(), &closed, sizeof closed) == 0) {
            require(rank.closes && rank.opened == 1 && ++rank.closed == 1);
        } else {
            AgentAnswer answer;
            require(bytes.size() >= sizeof answer);
            memcpy(static_cast<void*>(&answer), bytes.data(), sizeof answer);
            require(answer.key_bytes <= kHostKeyBytesMax && answer.exported_bytes <= kExportedBytesMax &&
                    bytes.size() == sizeof answer + answer.key_bytes + answer.exported_bytes);
        }
    }

    Choices choices_;
    Network network_;
    tasks::TaskPools pools_;
    AgentRanks ranks_;
    std::vector<Rank> ends_;
    std::vector<std::byte> last_;
    bool is_waiting_ = false, is_served_ = false;
};

}  // namespace

extern "C" uint64_t fuzz_conversations_that_got_far() {
    return got_far;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const size_t before = descriptors_now();
    Conversation(Choices(data, size)).run();
    require(descriptors_now() == before);
    return 0;
}
