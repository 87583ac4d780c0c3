// The shim may not hold a collective on MPI_COMM_WORLD, nor send on it, before it knows that every rank has
// it: a rank without the shim would never join, or would receive what is not meant for it. So it uses what
// stands below MPI. Both launchers give their processes a key space in which MPI itself exchanges its
// addresses in MPI_Init: put, barrier, get. The shim puts a key of its own *before* PMPI_Init and asks for
// the others' *after* it: MPI's barrier, which every rank joins, shim or not, stands between. No wait of ours
// is needed, and nothing can be left over:
//   - hydra (MPICH): the PMI-1 wire protocol on the descriptor PMI_FD, lines of "cmd=... key=value ...". We
//     speak only while MPI does not, and leave no answer unread. A missing key is answered at once. On one
//     node MPICH 5 has its barrier in shared memory; its hydra shows what a node's ranks put at once, older
//     ones only after a barrier of PMI: under those the own key is missing, too, and that is how we know.
//   - PMIx (Open MPI): PMIx_Put when MPI calls PMIx_Commit (stub_pmix.c), afterwards PMIx_Init, which counts
//     its users, and PMIx_Get: all of the library that MPI itself uses. Asked with pmix.immediate, a missing
//     key is answered at once; without it the server waits 2 s for it.
// Another launcher: the job is not offloaded and says so.
#include "mpi/job/agreement.h"

#include <dlfcn.h>
#include <mpi.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace longshore::mpi {
namespace {

// --- hydra, to which MPICH speaks
constexpr size_t kLineMax = 1024;       // PMI-1's own limit
constexpr int kAnswerLimitMs = 10'000;  // the proxy is a process of this machine that answers or is gone

class HydraKeySpace : public KeySpace {
  public:
    static std::unique_ptr<KeySpace> open() {
        const char* fd = getenv("PMI_FD");
        const char* rank = getenv("PMI_RANK");
        const char* version = getenv("PMI_VERSION");
        // Others set PMI_FD as well (Slurm: PMI-2 on it); MPI_LOCALNRANKS is hydra's.
        if (!fd || !rank || !getenv("MPI_LOCALNRANKS") || (version && strcmp(version, "1") != 0))
            return nullptr;
        auto space = std::unique_ptr<HydraKeySpace>(new HydraKeySpace);
        space->fd_ = atoi(fd);
        space->rank_ = static_cast<uint32_t>(atoi(rank));
        if (!space->ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init")) return nullptr;
        if (!space->ask("cmd=get_my_kvsname\n", "my_kvsname")) return nullptr;
        space->name_ = space->field("kvsname=");
        return space->name_.empty() ? nullptr : std::move(space);
    }

    bool put(const std::string& key, const std::string& value) override {
        return ask("cmd=put kvsname=" + name_ + " key=" + own(key, rank_) + " value=" + value + "\n",
                   "put_result") &&
               field("rc=") == "0";
    }

    bool published(const std::string& key) override {
        std::string value;
        return get(rank_, key, &value);
    }

    bool get(uint32_t rank, const std::string& key, std::string* value) override {
        if (!ask("cmd=get kvsname=" + name_ + " key=" + own(key, rank) + "\n", "get_result") ||
            field("rc=") != "0")
            return false;
        *value = field("value=");
        return true;
    }

  private:
    static std::string own(const std::string& key, uint32_t rank) { return key + "-" + std::to_string(rank); }

    bool ask(const std::string& line, const char* expected) {
        if (broken_ || write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
            return fail();
        answer_.clear();
        for (char c = 0;;) {
            pollfd ready{fd_, POLLIN, 0};
            if (poll(&ready, 1, kAnswerLimitMs) != 1 || read(fd_, &c, 1) != 1) return fail();
            if (c == '\n') break;
            if (answer_.size() == kLineMax) return fail();
            answer_ += c;
        }
        return field("cmd=") == expected;
    }

    bool fail() {
        broken_ = true;
        return false;
    }

    std::string field(const char* name) const {
        size_t at = answer_.find(name);
        if (at == std::string::npos) return "";
        at += strlen(name);
        return answer_.substr(at, answer_.find(' ', at) - at);
    }

    int fd_ = -1;
    uint32_t rank_ = 0;
    bool broken_ = false;
    std::string name_, answer_;
};

// --- PMIx: the few declarations that we need of its stable ABI (PMIx standard 3 and later).
struct PmixProc {
    char job[256];
    uint32_t rank;
};
struct PmixValue {
    uint16_t type;
    union {
        char* string;
        bool flag;
        char room[24];
    } data;
};
struct PmixInfo {
    char key[512];
    uint32_t flags;
    PmixValue value;
};
constexpr uint16_t kPmixBool = 1;
constexpr uint16_t kPmixString = 3;
constexpr uint8_t kPmixGlobal = 3;

// What waits for MPI's commit, and what it found there. Plain: MPI_Init is not called by two threads.
struct PmixCommit {
    std::string key, value;   // to be put; no key: nothing
    void* library = nullptr;  // in which it was put
};
PmixCommit pmix_commit;

class PmixKeySpace : public KeySpace {
  public:
    static std::unique_ptr<KeySpace> open() {
        if (!getenv("PMIX_NAMESPACE") || !getenv("PMIX_RANK")) return nullptr;
        return std::make_unique<PmixKeySpace>();
    }

    ~PmixKeySpace() override {
        pmix_commit = {};
        if (attached_) finalize_(nullptr, 0);
    }

    bool put(const std::string& key, const std::string& value) override {
        pmix_commit = {key, value};
        return true;
    }

    bool published(const std::string&) override {
        void* library = pmix_commit.library;
        attached_ = library && find(library, "PMIx_Init", &init_) && find(library, "PMIx_Get", &get_) &&
                    find(library, "PMIx_Finalize", &finalize_) && init_(&self_, nullptr, 0) == 0;
        return attached_;
    }

    bool get(uint32_t rank, const std::string& key, std::string* value) override {
        PmixProc peer = self_;
        peer.rank = rank;
        PmixInfo immediate{};
        strcpy(immediate.key, "pmix.immediate");
        immediate.value.type = kPmixBool;
        immediate.value.data.flag = true;
        PmixValue* found = nullptr;
        int rc = get_(&peer, key.c_str(), &immediate, 1, &found);
        if (rc == 0 && found && found->type == kPmixString) {
            *value = found->data.string;
            free(found->data.string);
            free(found);
        }
        return rc == 0;
    }

    template <class Function>
    static bool find(void* library, const char* name, Function* out) {
        *out = reinterpret_cast<Function>(dlsym(library, name));
        return *out != nullptr;
    }

  private:
    PmixProc self_{};
    bool attached_ = false;
    int (*init_)(PmixProc*, void*, size_t) = nullptr;
    int (*get_)(const PmixProc*, const char*, const PmixInfo*, size_t, PmixValue**) = nullptr;
    int (*finalize_)(const void*, size_t) = nullptr;
};

}  // namespace

void before_pmix_commit(void* commit) {
    Dl_info info{};
    if (pmix_commit.key.empty() || !dladdr(commit, &info) || !info.dli_fname) return;
    // Not closed again: MPI uses it.
    void* library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    int (*put)(uint8_t, const char*, PmixValue*) = nullptr;
    if (!library || !PmixKeySpace::find(library, "PMIx_Put", &put)) return;
    PmixValue boxed{};
    boxed.type = kPmixString;
    boxed.data.string = pmix_commit.value.data();
    if (put(kPmixGlobal, pmix_commit.key.c_str(), &boxed) == 0) pmix_commit.library = library;
    pmix_commit.key.clear();
}

std::unique_ptr<KeySpace> open_key_space() {
#ifndef OPEN_MPI  // which would not say farewell: hydra takes the process for one that has failed, and ends
                  // the others
    if (auto space = HydraKeySpace::open()) return space;
#endif
    return PmixKeySpace::open();
}

}  // namespace longshore::mpi
