#include "mpmd.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "border.h"

namespace {

constexpr int kBuffersMax = 16, kArgumentsMax = 64;
constexpr int kHeaderTag = 10, kSetUpTag = 11, kInTag = 12, kOutTag = 40, kMassTag = 3;
constexpr int kEnd = -1, kRest = -2;  // in place of a kernel
constexpr std::int64_t kRestNs = 2'000'000;

// Announces a call; the buffers that the peer does not have follow as messages of their own.
struct Header {
    std::int32_t kernel, buffers_count;
    std::int32_t arguments_bytes;
    std::int32_t access[kBuffersMax];
    std::int64_t bytes[kBuffersMax];
    unsigned char arguments[kArgumentsMax];
};

bool goes_in(Access access) {
    return access == Access::kIn || access == Access::kInOut;
}
bool comes_out(Access access) {
    return access == Access::kOut || access == Access::kInOut;
}

// What a peer needs of a mesh to sum over borders: every array, with its length before it.
template <typename Walk, typename Of>
void walk_border(Of& mesh, Walk& walk) {
    walk(mesh.corners);
    walk(mesh.ghosts);
    walk(mesh.border_points);
    walk(mesh.border_corners);
    walk(mesh.point_corner);
    walk(mesh.point_corners);
    for (auto& one : mesh.neighbours) {
        walk(one.rank);
        walk(one.ghost_begin);
        walk(one.ghost_count);
        walk(one.corners);
    }
}

struct Pack {
    std::vector<std::int32_t> words;
    void operator()(std::int32_t value) { words.push_back(value); }
    void operator()(const std::vector<std::int32_t>& values) {
        words.push_back(std::int32_t(values.size()));
        words.insert(words.end(), values.begin(), values.end());
    }
};

struct Unpack {
    const std::int32_t* next;
    void operator()(std::int32_t& value) { value = *next++; }
    void operator()(std::vector<std::int32_t>& values) {
        const std::int32_t count = *next++;
        values.assign(next, next + count);
        next += count;
    }
};

class MpmdSide : public Side {
  public:
    MpmdSide(const Mesh& mesh, int partner) : partner_(partner) {
        processes = 1;
        Pack pack;
        pack(std::int32_t(mesh.neighbours.size()));
        walk_border(mesh, pack);
        MPI_Send(pack.words.data(), int(pack.words.size()), MPI_INT32_T, partner_, kSetUpTag, MPI_COMM_WORLD);
    }
    ~MpmdSide() override { tell(kEnd); }

    void submit(KernelId kernel, const void* arguments, std::size_t arguments_bytes,
                const std::vector<Buffer>& buffers) override {
        Call& call = calls_[kernel];
        if (buffers.size() > kBuffersMax || arguments_bytes > kArgumentsMax)
            throw std::logic_error("mpmd: a call with too many buffers or arguments");
        Header& header = call.header;
        header.kernel = kernel;
        header.buffers_count = std::int32_t(buffers.size());
        header.arguments_bytes = std::int32_t(arguments_bytes);
        std::memcpy(header.arguments, arguments, arguments_bytes);
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            if (buffers[i].bytes > std::size_t(std::numeric_limits<int>::max()))
                throw std::runtime_error(
                    "mpmd: a buffer of 2 GiB or more does not fit a message; use more ranks");
            header.access[i] = int(buffers[i].access);
            header.bytes[i] = std::int64_t(buffers[i].bytes);
        }
        call.requests.clear();
        MPI_Isend(&header, sizeof header, MPI_BYTE, partner_, kHeaderTag, MPI_COMM_WORLD,
                  &call.requests.emplace_back());
        for (const Buffer& buffer : buffers) {
            if (goes_in(buffer.access) || (buffer.access == Access::kConstant && !call.knows_constants)) {
                MPI_Isend(buffer.data, int(buffer.bytes), MPI_BYTE, partner_, kInTag, MPI_COMM_WORLD,
                          &call.requests.emplace_back());
                bytes_copied += buffer.bytes;
            }
            if (comes_out(buffer.access)) {
                MPI_Irecv(buffer.data, int(buffer.bytes), MPI_BYTE, partner_, kOutTag + kernel,
                          MPI_COMM_WORLD, &call.requests.emplace_back());
                bytes_copied += buffer.bytes;
            }
        }
        call.knows_constants = true;
    }

    void wait(KernelId kernel) override {
        auto& requests = calls_[kernel].requests;
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        requests.clear();
    }

    // An MPI moves long messages in the calls of the rank, so there must be some between submitting and
    // waiting.
    void poll() override {
        for (Call& call : calls_) {
            int done = 0;
            if (!call.requests.empty())
                MPI_Testall(int(call.requests.size()), call.requests.data(), &done, MPI_STATUSES_IGNORE);
        }
    }

    bool sums_borders() const override { return true; }
    void rest() override { tell(kRest); }

  private:
    struct Call {
        Header header{};
        bool knows_constants = false;  // the peer keeps them
        std::vector<MPI_Request> requests;
    };

    void tell(int what) {
        Header header{};
        header.kernel = what;
        MPI_Send(&header, sizeof header, MPI_BYTE, partner_, kHeaderTag, MPI_COMM_WORLD);
    }

    const int partner_;
    std::array<Call, kKernels> calls_;
};

std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

class Peer {
  public:
    Peer(const Roles& roles, const PeerOptions& options) : roles_(roles), options_(options) {
        receive_mesh();
    }

    void serve() {
        Header header{};
        for (bool resting = false;;) {
            if (resting) sleep_until_called();
            MPI_Recv(&header, sizeof header, MPI_BYTE, roles_.partner, kHeaderTag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            if (header.kernel == kEnd) return;
            resting = header.kernel == kRest;
            if (!resting) run(header);
        }
    }

  private:
    using Memory = std::vector<double>;  // for its alignment

    void receive_mesh() {
        MPI_Status status;
        int count = 0;
        MPI_Probe(roles_.partner, kSetUpTag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT32_T, &count);
        std::vector<std::int32_t> words(std::size_t(count), 0);
        MPI_Recv(words.data(), count, MPI_INT32_T, roles_.partner, kSetUpTag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        Unpack unpack{words.data()};
        std::int32_t neighbours = 0;
        unpack(neighbours);
        mesh_.neighbours.resize(std::size_t(neighbours));
        walk_border(mesh_, unpack);
        corner_mass_.resize(std::size_t(mesh_.corners + mesh_.ghosts));
        border_.emplace(mesh_, roles_.mine, kMassTag);
    }

    // MPI_Recv may keep a core busy; a peer that has nothing to do for long does not.
    void sleep_until_called() {
        for (int is_there = 0;;) {
            MPI_Iprobe(roles_.partner, kHeaderTag, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
            if (is_there) return;
            const timespec nap{0, kRestNs};
            nanosleep(&nap, nullptr);
        }
    }

    void run(const Header& header) {
        const std::size_t kernel = std::size_t(header.kernel);
        if (kernel >= kKernels || header.buffers_count > kBuffersMax)
            throw std::runtime_error("peer: a call that is none");
        receive(kernel, header);
        const std::int64_t begin = now_ns();
        if (const int error = kKernelTable[kernel].run(header.arguments, std::size_t(header.arguments_bytes),
                                                       views_.data(), int(views_.size())))
            throw std::runtime_error(std::string("peer: kernel ") + kKernelTable[kernel].name + ": error " +
                                     std::to_string(error));
        for (const std::int64_t end = begin + std::int64_t(double(now_ns() - begin) * options_.slow);
             now_ns() < end;)
            sched_yield();  // slow cores do not keep each other waiting, where they share one here
        if (kernel == kMasses) sum_borders();
        static_cast<Stamp*>(views_.back().data)->ended_ns = now_ns();
        send(kernel, header);
    }

    void receive(std::size_t kernel, const Header& header) {
        auto& memory = memory_[kernel];
        memory.resize(std::size_t(header.buffers_count));
        views_.clear();
        requests_.clear();
        for (std::size_t i = 0; i < memory.size(); ++i) {
            const auto bytes = std::size_t(header.bytes[i]);
            memory[i].resize((bytes + sizeof(double) - 1) / sizeof(double));
            views_.push_back({memory[i].data(), bytes});
            const auto access = Access(header.access[i]);
            if (goes_in(access) || (access == Access::kConstant && !knows_constants_[kernel]))
                MPI_Irecv(memory[i].data(), int(bytes), MPI_BYTE, roles_.partner, kInTag, MPI_COMM_WORLD,
                          &requests_.emplace_back());
        }
        knows_constants_[kernel] = true;
        MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    }

    void send(std::size_t kernel, const Header& header) {
        requests_.clear();
        for (std::size_t i = 0; i < views_.size(); ++i)
            if (comes_out(Access(header.access[i])))
                MPI_Isend(views_[i].data, int(views_[i].bytes), MPI_BYTE, roles_.partner,
                          kOutTag + int(kernel), MPI_COMM_WORLD, &requests_.emplace_back());
        MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    }

    void sum_borders() {
        const auto* border_mass = static_cast<const double*>(views_[kMassesBorder].data);
        auto* point_mass = static_cast<double*>(views_[kMassesPoint].data);
        for (std::size_t i = 0; i < mesh_.border_corners.size(); ++i)
            corner_mass_[std::size_t(mesh_.border_corners[i])] = border_mass[i];
        border_->begin(corner_mass_.data());
        border_->finish();
        sum_border_points(mesh_, corner_mass_.data(), point_mass);
    }

    const Roles& roles_;
    const PeerOptions& options_;
    Mesh mesh_;  // borders alone
    std::vector<double> corner_mass_;
    std::optional<Border<double>> border_;
    std::array<std::vector<Memory>, kKernels> memory_;
    std::array<bool, kKernels> knows_constants_{};
    std::vector<View> views_;
    std::vector<MPI_Request> requests_;
};

}  // namespace

Roles split_roles(Role role) {
    int size = 0, me = 0, mine = int(role);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    std::vector<int> roles(std::size_t(size), 0);
    MPI_Allgather(&mine, 1, MPI_INT, roles.data(), 1, MPI_INT, MPI_COMM_WORLD);
    Roles result{MPI_COMM_NULL, -1, 0, 0};
    MPI_Comm_split(MPI_COMM_WORLD, mine, me, &result.mine);
    int place = 0;  // among those of my role
    for (int i = 0; i < size; ++i) {
        ++(roles[std::size_t(i)] == int(Role::kRank) ? result.ranks : result.peers);
        if (i < me && roles[std::size_t(i)] == mine) ++place;
    }
    for (int i = 0, other = 0; i < size; ++i)
        if (roles[std::size_t(i)] != mine && other++ == place) result.partner = i;
    return result;
}

int agree_to_end(int status) {
    MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return status;
}

std::unique_ptr<Side> make_mpmd_side(const Mesh& mesh, int partner) {
    return std::make_unique<MpmdSide>(mesh, partner);
}

void serve_rank(const Roles& roles, const PeerOptions& options) {
    Peer(roles, options).serve();
}
