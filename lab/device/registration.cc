#include "device/registration.h"

#include <sys/mman.h>

#include <cstring>

#include "device/clock.h"
#include "device/library.h"

namespace longshore::device {
namespace {

// The few functions of libibverbs that are needed, found when the program runs.
// What they hand around is nobody's business but theirs.
class Verbs {
  public:
    ~Verbs() {
        if (domain_ != nullptr) dealloc_pd_(domain_);
        if (context_ != nullptr) close_device_(context_);
        if (devices_ != nullptr) free_device_list_(devices_);
        if (library_ != nullptr) dlclose(library_);
    }

    // "" or why no card can be used.
    std::string open() {
        library_ = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library_ == nullptr) return "libibverbs.so.1 is not there";
        const bool found = find("ibv_get_device_list", &get_device_list_) &&
                           find("ibv_free_device_list", &free_device_list_) &&
                           find("ibv_open_device", &open_device_) &&
                           find("ibv_close_device", &close_device_) && find("ibv_alloc_pd", &alloc_pd_) &&
                           find("ibv_dealloc_pd", &dealloc_pd_) && find("ibv_reg_mr", &reg_mr_) &&
                           find("ibv_dereg_mr", &dereg_mr_);
        if (!found) return "libibverbs.so.1 lacks functions";
        int count = 0;
        devices_ = get_device_list_(&count);
        if (devices_ == nullptr || count == 0) return "no RDMA card";
        context_ = open_device_(devices_[0]);
        if (context_ == nullptr) return "the RDMA card cannot be opened";
        domain_ = alloc_pd_(context_);
        return domain_ == nullptr ? "the RDMA card has no protection domain left" : "";
    }

    // For reads and writes by others. Null: it cannot be.
    void* add(void* at, size_t bytes) {
        constexpr int kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4;
        return reg_mr_(domain_, at, bytes, kLocalWrite | kRemoteWrite | kRemoteRead);
    }
    bool remove(void* region) { return dereg_mr_(region) == 0; }

  private:
    template <class F>
    bool find(const char* name, F* function) {
        return find_function(library_, name, function);
    }

    void* library_ = nullptr;
    void** (*get_device_list_)(int*) = nullptr;
    void (*free_device_list_)(void**) = nullptr;
    void* (*open_device_)(void*) = nullptr;
    int (*close_device_)(void*) = nullptr;
    void* (*alloc_pd_)(void*) = nullptr;
    int (*dealloc_pd_)(void*) = nullptr;
    void* (*reg_mr_)(void*, void*, size_t, int) = nullptr;
    int (*dereg_mr_)(void*) = nullptr;
    void** devices_ = nullptr;
    void *context_ = nullptr, *domain_ = nullptr;
};

constexpr uint64_t kSizes[] = {4096, 64 * 1024, 1 << 20, 16 << 20, 64 << 20};

}  // namespace

void measure_registration(const Effort& effort, const Report& report, const Tell& left_out) {
    const auto say = [&](const std::string& why) { left_out("registering memory: " + why); };
    Verbs verbs;
    if (const std::string why = verbs.open(); !why.empty()) return say(why);
    const uint64_t most = kSizes[effort.quick ? 2 : std::size(kSizes) - 1];
    void* const memory = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return say("no memory");
    memset(memory, 1, most);
    for (const uint64_t bytes : kSizes) {
        if (bytes > most) break;
        Row on{"register memory", "us", bytes, 1, {}}, off{"deregister memory", "us", bytes, 1, {}};
        for (int r = -1; r < effort.network_repeats; ++r) {  // the first is not counted
            const uint64_t begin = now_ns();
            void* const region = verbs.add(memory, bytes);
            const uint64_t middle = now_ns();
            if (region == nullptr || !verbs.remove(region)) {
                say("the card refuses " + std::to_string(bytes) + " bytes");
                munmap(memory, most);
                return;
            }
            const uint64_t end = now_ns();
            if (r < 0) continue;
            on.samples.push_back(static_cast<double>(middle - begin) / 1000);
            off.samples.push_back(static_cast<double>(end - middle) / 1000);
        }
        report(std::move(on));
        report(std::move(off));
    }
    munmap(memory, most);
}

}  // namespace longshore::device
