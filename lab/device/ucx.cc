#include "device/ucx.h"

#if __has_include(<ucp/api/ucp.h>)
#include <sched.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "base/ucx_info.h"
#include "device/clock.h"
#include "device/figure.h"
#include "device/library.h"
#include "device/machine.h"

namespace longshore::device {
namespace {

constexpr uint64_t kFrameSizes[] = {8, 64, 1 << 10, 4 << 10};
constexpr uint64_t kReadTimeSizes[] = {8, 1 << 10, 8 << 10, 64 << 10};
constexpr uint64_t kSmallFrame = 8;
constexpr uint64_t kMoveSizes[] = {1 << 10, 8 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr size_t kUnderWay = 16;  // each way
constexpr size_t kMessageMost = 4 << 10;
constexpr unsigned kAsked = 1, kEchoed = 2, kTaken = 3;  // messages: sent back, that, not sent back
enum class Move : uint8_t { kReads, kWrites, kBoth };    // both: in turn
constexpr uint64_t kSilentNs = uint64_t{kSilentMs} * 1'000'000;
constexpr uint64_t kLooks = 1000;  // then, where both ends have one core, the other one has to run

// What the far end tells of itself, before its worker's address and its memory's key.
struct UcxPlace {
    static constexpr uint64_t kAddressMost = 64 << 10, kKeyMost = 4 << 10;
    uint64_t memory = 0, memory_bytes = 0, address_bytes = 0, key_bytes = 0;
};
static_assert(sizeof(UcxPlace) == 32);

}  // namespace

// The functions that are used, and what was opened with them.
struct UcxLibrary {
#define LONGSHORE_UCX_FUNCTIONS(F)    \
    F(ucp_config_read)                \
    F(ucp_config_release)             \
    F(ucp_init_version)               \
    F(ucp_cleanup)                    \
    F(ucp_get_version_string)         \
    F(ucp_context_print_info)         \
    F(ucp_worker_create)              \
    F(ucp_worker_destroy)             \
    F(ucp_worker_get_address)         \
    F(ucp_worker_release_address)     \
    F(ucp_worker_progress)            \
    F(ucp_worker_set_am_recv_handler) \
    F(ucp_mem_map)                    \
    F(ucp_mem_unmap)                  \
    F(ucp_rkey_pack)                  \
    F(ucp_rkey_buffer_release)        \
    F(ucp_ep_create)                  \
    F(ucp_ep_close_nbx)               \
    F(ucp_ep_flush_nbx)               \
    F(ucp_ep_rkey_unpack)             \
    F(ucp_rkey_destroy)               \
    F(ucp_get_nbx)                    \
    F(ucp_put_nbx)                    \
    F(ucp_am_send_nbx)                \
    F(ucp_request_check_status)       \
    F(ucp_request_free)               \
    F(ucs_status_string)
#define LONGSHORE_UCX_POINTER(name) decltype(&::name) name = nullptr;
    LONGSHORE_UCX_FUNCTIONS(LONGSHORE_UCX_POINTER)

    void* handle = nullptr;
    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    bool has_rdma = false;
    bool is_broken = false;
    std::vector<char> echo;  // of the far end, borrowed by UCX until the message has gone
    uint64_t echoed = 0;     // that came back to the near end

    // The library stays: UCX starts threads of its own.
    ~UcxLibrary() {
        if (worker != nullptr) ucp_worker_destroy(worker);
        if (context != nullptr) ucp_cleanup(context);
    }

    std::string open() {
        handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) return "libucp.so.0 is not there";
        bool found = true;
#define LONGSHORE_UCX_FIND(name) found &= find_function(handle, #name, &name);
        LONGSHORE_UCX_FUNCTIONS(LONGSHORE_UCX_FIND)
        if (!found) return "libucp.so.0 lacks functions";
        ucp_config_t* config = nullptr;
        // As service processes have it: LONGSHORE_UCX_TLS and others choose.
        if (ucp_config_read("LONGSHORE", nullptr, &config) != UCS_OK) return "its settings cannot be read";
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA | UCP_FEATURE_AM;
        ucs_status_t status = ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
        ucp_config_release(config);
        if (status != UCS_OK) return std::string("UCX does not start: ") + ucs_status_string(status);
        has_rdma = has_rdma_transport(ucx_info(ucp_context_print_info, context));
        ucp_worker_params_t how{};
        how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        how.thread_mode = UCS_THREAD_MODE_SINGLE;
        status = ucp_worker_create(context, &how, &worker);
        return status == UCS_OK ? "" : std::string("no network for UCX: ") + ucs_status_string(status);
    }

    void handle_messages(unsigned id, ucp_am_recv_callback_t callback) {
        ucp_am_handler_param_t param{};
        param.field_mask =
            UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        param.id = id;
        param.cb = callback;
        param.arg = this;
        ucp_worker_set_am_recv_handler(worker, &param);
    }

    ucs_status_ptr_t send(ucp_ep_h to, unsigned id, const void* bytes, size_t count, uint32_t flags) {
        ucp_request_param_t how{};
        how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        how.flags = flags | UCP_AM_SEND_FLAG_EAGER;
        return ucp_am_send_nbx(to, id, nullptr, 0, bytes, count, &how);
    }

    // At the far end, while it looks: back to whoever sent it. One message is under way at a time.
    static ucs_status_t on_asked(void* self, const void*, size_t, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param) {
        auto* const ucx = static_cast<UcxLibrary*>(self);
        const bool is_ours = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 &&
                             (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 && bytes <= kMessageMost;
        if (!is_ours) return UCS_OK;
        ucx->echo.resize(kMessageMost);
        memcpy(ucx->echo.data(), data, bytes);
        const ucs_status_ptr_t sending = ucx->send(param->reply_ep, kEchoed, ucx->echo.data(), bytes, 0);
        if (UCS_PTR_IS_PTR(sending)) ucx->ucp_request_free(sending);  // it goes on
        return UCS_OK;
    }
    static ucs_status_t on_taken(void*, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
        return UCS_OK;
    }
    static ucs_status_t on_echoed(void* self, const void*, size_t, void*, size_t,
                                  const ucp_am_recv_param_t*) {
        ++static_cast<UcxLibrary*>(self)->echoed;
        return UCS_OK;
    }
    static void on_error(void* self, ucp_ep_h, ucs_status_t) {
        static_cast<UcxLibrary*>(self)->is_broken = true;
    }

    // Looks until it is so. False: the far end has gone, or is silent.
    bool look_until(const std::function<bool()>& is_so) {
        const uint64_t silent_until = now_ns() + kSilentNs;
        for (uint64_t looks = 1; !is_so(); ++looks) {
            if (ucp_worker_progress(worker) == 0 && looks % kLooks == 0) {
                if (is_broken || now_ns() > silent_until) return false;
                sched_yield();
            }
        }
        return !is_broken;
    }
    bool wait(ucs_status_ptr_t request) {
        if (request == nullptr) return true;
        if (UCS_PTR_IS_ERR(request)) return false;
        const bool came = look_until([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; });
        const bool good = came && ucp_request_check_status(request) == UCS_OK;
        ucp_request_free(request);
        return good;
    }
};

namespace {

// Requests under way, at most so many: the oldest is waited for before the next one is made.
class UnderWay {
  public:
    UnderWay(UcxLibrary& ucx, size_t most) : ucx_(ucx), posted_(most, nullptr) {}
    // What is under way when something has failed is still to be waited for.
    ~UnderWay() { all(); }
    bool next() { return ucx_.wait(std::exchange(posted_[at_], nullptr)); }
    bool add(ucs_status_ptr_t request) {
        if (UCS_PTR_IS_ERR(request)) return false;
        posted_[at_] = request;
        at_ = (at_ + 1) % posted_.size();
        return true;
    }
    bool all() {
        bool good = true;
        for (ucs_status_ptr_t& request : posted_) good &= ucx_.wait(std::exchange(request, nullptr));
        return good;
    }

  private:
    UcxLibrary& ucx_;
    std::vector<ucs_status_ptr_t> posted_;
    size_t at_ = 0;
};

// Of the near end: what the far one has told, and one pattern after the other.
class NearUcx {
  public:
    NearUcx(UcxLibrary& ucx, Connection& connection, const Effort& effort, const Report& report)
        : ucx_(ucx),
          connection_(connection),
          effort_(effort),
          report_(report),
          memory_(kMessageBytesMax, 1) {}
    // After this nothing reads or writes its memory.
    ~NearUcx() {
        if (key_ != nullptr) ucx_.ucp_rkey_destroy(key_);
        if (endpoint_ == nullptr) return;
        ucp_request_param_t how{};
        how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        how.flags = UCP_EP_CLOSE_FLAG_FORCE;
        ucx_.wait(ucx_.ucp_ep_close_nbx(endpoint_, &how));
    }

    std::string measure() {
        if (!meet()) return problem();
        for (const uint64_t bytes : kFrameSizes)
            add("ucx message", kTimeOneWay, bytes,
                [&](uint64_t count) { return exchange_messages(bytes, count); });
        for (const uint64_t bytes : kReadTimeSizes)
            add("ucx read time", kTime, bytes,
                [&](uint64_t count) { return move(bytes, count, 1, Move::kReads); });
        for (const auto& [test, what] :
             {std::pair{"ucx read", Move::kReads}, std::pair{"ucx write", Move::kWrites}})
            for (const uint64_t bytes : kMoveSizes)
                add(test, kRate, bytes,
                    [&, what = what](uint64_t count) { return move(bytes, count, kUnderWay, what); });
        for (const uint64_t bytes : kMoveSizes)
            add("ucx both", kRate, bytes,
                [&](uint64_t count) { return move(bytes, count, 2 * kUnderWay, Move::kBoth); });
        // One answer ends all of them: of few messages it would be most of the time.
        constexpr uint64_t kTried = 1000;
        add(
            "ucx messages", kPerSecond, kSmallFrame,
            [&](uint64_t count) { return send_messages(kSmallFrame, count); }, kTried);
        const uint64_t over = 0;
        connection_.send(&over, sizeof over);
        return problem();
    }

  private:
    std::string problem() const {
        return is_good_ ? "" : "the far end has gone, or was silent for 30 s, or UCX does not reach it";
    }

    bool meet() {
        UcxPlace place;
        is_good_ = connection_.receive(&place, sizeof place) && place.memory_bytes >= kMessageBytesMax &&
                   place.address_bytes <= UcxPlace::kAddressMost && place.key_bytes <= UcxPlace::kKeyMost;
        if (!is_good_) return false;
        std::vector<char> address(place.address_bytes), key(place.key_bytes);
        is_good_ = connection_.receive(address.data(), address.size()) &&
                   connection_.receive(key.data(), key.size());
        if (!is_good_) return false;
        far_memory_ = place.memory;
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                            UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.address = reinterpret_cast<const ucp_address_t*>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = UcxLibrary::on_error;
        params.err_handler.arg = &ucx_;
        is_good_ = ucx_.ucp_ep_create(ucx_.worker, &params, &endpoint_) == UCS_OK &&
                   ucx_.ucp_ep_rkey_unpack(endpoint_, key.data(), &key_) == UCS_OK;
        ucx_.handle_messages(kEchoed, UcxLibrary::on_echoed);
        return is_good_;
    }

    bool exchange_messages(uint64_t bytes, uint64_t count) {
        for (uint64_t i = 0; i < count; ++i) {
            const uint64_t before = ucx_.echoed;
            if (!ucx_.wait(ucx_.send(endpoint_, kAsked, memory_.data(), bytes, UCP_AM_SEND_FLAG_REPLY)) ||
                !ucx_.look_until([&] { return ucx_.echoed != before; }))
                return false;
        }
        return true;
    }

    // The last one is sent back: then all have been taken, as messages keep their order.
    bool send_messages(uint64_t bytes, uint64_t count) {
        UnderWay posted(ucx_, kUnderWay);
        for (uint64_t i = 0; i + 1 < count; ++i)
            if (!posted.next() || !posted.add(ucx_.send(endpoint_, kTaken, memory_.data(), bytes, 0)))
                return false;
        return posted.all() && exchange_messages(bytes, 1);
    }

    // At the end of it all bytes are there. Where both go on, reads and writes have places of their own.
    bool move(uint64_t bytes, uint64_t count, size_t under_way, Move what) {
        const ucp_request_param_t how{};
        UnderWay posted(ucx_, under_way);
        const uint64_t places = memory_.size() / bytes;
        for (uint64_t i = 0; i < count; ++i) {
            const bool reads = what == Move::kReads || (what == Move::kBoth && i % 2 == 0);
            const uint64_t offset = i % places * bytes;
            char* const here = memory_.data() + offset;
            if (!posted.next() ||
                !posted.add(reads
                                ? ucx_.ucp_get_nbx(endpoint_, here, bytes, far_memory_ + offset, key_, &how)
                                : ucx_.ucp_put_nbx(endpoint_, here, bytes, far_memory_ + offset, key_, &how)))
                return false;
        }
        if (!posted.all()) return false;
        return what == Move::kReads || ucx_.wait(ucx_.ucp_ep_flush_nbx(endpoint_, &how));
    }

    // `run` does a step so many times; how many fill a sample, a trial of at most `tried_most` says.
    void add(const char* test, const Figure& figure, uint64_t bytes, const std::function<bool(uint64_t)>& run,
             uint64_t tried_most = 10) {
        const auto seconds_of = [&](uint64_t count) {
            const uint64_t alive = 1, begin = now_ns();
            is_good_ = is_good_ && run(count);
            const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
            is_good_ = is_good_ && connection_.send(&alive, sizeof alive);
            return std::max(seconds, 1e-7);
        };
        if (!is_good_) return;
        const uint64_t trial = std::clamp<uint64_t>((1 << 20) / bytes, 2, tried_most);
        const uint64_t count =
            std::clamp<uint64_t>(effort_.messages_of_a_sample(trial, seconds_of(trial)), 2, kMessagesMax);
        Row row{test, figure.unit, bytes, 1, {}};
        for (int i = 0; i < effort_.network_repeats; ++i) {
            const double each = seconds_of(count) / static_cast<double>(count);
            row.samples.push_back(figure.of(each, bytes));
        }
        if (is_good_) report_(std::move(row));
    }

    UcxLibrary& ucx_;
    Connection& connection_;
    const Effort& effort_;
    const Report& report_;
    std::vector<char> memory_;
    uint64_t far_memory_ = 0;
    ucp_ep_h endpoint_ = nullptr;
    ucp_rkey_h key_ = nullptr;
    bool is_good_ = true;
};

}  // namespace

std::string Ucx::open() {
    return library_->open();
}

std::string Ucx::name() const {
    return std::string("UCX ") + library_->ucp_get_version_string() +
           (library_->has_rdma ? ", a card reads and writes"
                               : ", no RDMA card: the other end's processor moves what is read");
}

bool Ucx::serve(Connection& connection, uint64_t bytes) {
    UcxLibrary& ucx = *library_;
    std::vector<char> memory(bytes, 1);
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory.data();
    params.length = bytes;
    ucp_mem_h mapped = nullptr;
    ucp_address_t* address = nullptr;
    void* key = nullptr;
    size_t address_bytes = 0, key_bytes = 0;
    if (ucx.ucp_mem_map(ucx.context, &params, &mapped) != UCS_OK) return false;
    bool good = ucx.ucp_worker_get_address(ucx.worker, &address, &address_bytes) == UCS_OK &&
                ucx.ucp_rkey_pack(ucx.context, mapped, &key, &key_bytes) == UCS_OK;
    ucx.handle_messages(kAsked, UcxLibrary::on_asked);
    ucx.handle_messages(kTaken, UcxLibrary::on_taken);
    const UcxPlace place{reinterpret_cast<uint64_t>(memory.data()), bytes, address_bytes, key_bytes};
    good = good && connection.send(&place, sizeof place) && connection.send(address, address_bytes) &&
           connection.send(key, key_bytes);
    if (key != nullptr) ucx.ucp_rkey_buffer_release(key);
    if (address != nullptr) ucx.ucp_worker_release_address(ucx.worker, address);
    uint64_t heard = now_ns();
    for (uint64_t looks = 1; good; ++looks) {
        ucx.ucp_worker_progress(ucx.worker);
        if (looks % kLooks != 0) continue;  // the socket is a call of the system away
        sched_yield();
        uint64_t word = 0;
        const Look seen = connection.look(&word, sizeof word);
        if (seen == Look::kCame && word == 0) break;  // it is over
        if (seen == Look::kCame) heard = now_ns();
        good = seen != Look::kGone && now_ns() - heard < kSilentNs;
    }
    ucx.ucp_mem_unmap(ucx.context, mapped);
    return good;
}

std::string Ucx::measure(Connection& connection, const Effort& effort, const Report& report) {
    return NearUcx(*library_, connection, effort, report).measure();
}

Ucx::Ucx() : library_(std::make_shared<UcxLibrary>()) {}

}  // namespace longshore::device

#else  // built where UCX's headers are not

namespace longshore::device {

Ucx::Ucx() = default;
std::string Ucx::open() {
    return "this longshore-device was built without UCX";
}
std::string Ucx::name() const {
    return "";
}
bool Ucx::serve(Connection&, uint64_t) {
    return false;
}
std::string Ucx::measure(Connection&, const Effort&, const Report&) {
    return "";
}

}  // namespace longshore::device
#endif
