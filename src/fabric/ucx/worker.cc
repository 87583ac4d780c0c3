#include "fabric/ucx/worker.h"

#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/ucx_info.h"
#include "fabric/ucx/exported_memory.h"

// LONGSHORE_UCX_EXPORTS: this UCX can export memory (cmake/ucx_flavours.cmake finds that out).

namespace longshore {
namespace {

constexpr unsigned kMessageId = 0x4c53;
constexpr int kProgressAtEnd = 10'000;
constexpr size_t kKeyPaddingBytes = 4096;

// Of the library that is loaded.
struct UcxVersion {
    UcxVersion() {
        unsigned parts[3] = {};
        ucp_get_version(&parts[0], &parts[1], &parts[2]);
        major = static_cast<uint8_t>(parts[0]);
        minor = static_cast<uint8_t>(parts[1]);
        release = static_cast<uint8_t>(parts[2]);
    }
    uint8_t major = 0, minor = 0, release = 0;
};

// A network card reaches memory by its pages as they were when it was registered. Ranks whose memory is
// mapped here may give pages back and get others, of which nobody tells this process: nothing may stay
// registered when it has been sent or taken. Before UCX 1.14 a setting of the transport alone says so, which
// is read without our prefix, and one that the transport is not there to read would be complained of.
void forbid_old_registrations() {
    const UcxVersion version;
    if (version.major > 1 || version.minor >= 14) return;
    std::error_code none;
    if (!std::filesystem::is_empty("/sys/class/infiniband", none) && !none)
        setenv("UCX_IB_REG_METHODS", "direct", 1);
}

std::string why(const char* what, ucs_status_t status) {
    return std::string(what) + ": " + ucs_status_string(status);
}

#ifdef LONGSHORE_UCX_EXPORTS
// Its name, and what it has found: "UCX 1.22.0 with memory domains self, tcp".
std::string domains_of(ucp_context_h context) {
    std::istringstream info(ucx_info(ucp_context_print_info, context));
    std::string text;
    for (std::string line; std::getline(info, line);) {
        std::istringstream words(line);
        std::string hash, kind, number, colon, component, index, name;
        words >> hash >> kind >> number >> colon >> component >> index >> name;
        if (kind == "md") text += (text.empty() ? " with memory domains " : ", ") + name;
    }
    return "UCX " + ucx_version() + text;
}
#else
const std::string kNoExports = "built with UCX " + std::to_string(UCP_API_MAJOR) + "." +
                               std::to_string(UCP_API_MINOR) + ", which exports no memory: 1.15 or newer can";
#endif

uint64_t features_of(UcxWorker::Use use) {
    uint64_t features = use == UcxWorker::Use::kMessages ? UCP_FEATURE_AM : UCP_FEATURE_RMA;
#ifdef LONGSHORE_UCX_EXPORTS
    if (use == UcxWorker::Use::kAliases) features |= UCP_FEATURE_EXPORTED_MEMH;
#endif
    return features | UCP_FEATURE_WAKEUP;
}

}  // namespace

struct UcxEndpoint {
    UcxWorker* worker = nullptr;
    ucp_ep_h ep = nullptr;
    void* connecting = nullptr;  // until the other side has answered, or never will; RDMA's messages alone
    bool broken = false;
};

struct UcxOpening {
    ucp_mem_h memory = nullptr;
};

struct UcxKey {
    ucp_rkey_h key = nullptr;
};

struct UcxAlias {
    ucp_mem_h memory = nullptr;
};

struct UcxWorker::Inside {
    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    ucp_address_t* address = nullptr;
    size_t address_bytes = 0;
    std::vector<std::unique_ptr<UcxEndpoint>> endpoints;
    std::vector<std::unique_ptr<UcxEndpoint>> left;    // closed before they had connected
    std::vector<std::unique_ptr<UcxEndpoint>> closed;  // UCX may still name them until the worker goes
    std::vector<void*> closing;
    std::vector<std::unique_ptr<UcxOpening>> openings;
    std::vector<std::unique_ptr<UcxAlias>> aliases;
};

// A message on its way: UCX borrows the header until it has gone.
struct UcxWorker::Sending {
    UcxWorker* worker = nullptr;
    uint64_t lent = 0;
    std::byte header[kHeaderBytesMax];
    std::vector<std::byte> copy;
};

struct UcxWorker::Taking {
    UcxWorker* worker = nullptr;
    uint64_t id = 0, bytes = 0;
};

struct UcxWorker::Reaching {
    UcxWorker* worker = nullptr;
    uint64_t id = 0;
};

struct UcxCalls {
    static ucs_status_t listen(UcxWorker* worker) {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                             UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
        handler.id = kMessageId;
        handler.cb = on_message;
        handler.arg = worker;
        handler.flags = UCP_AM_FLAG_WHOLE_MSG;
        return ucp_worker_set_am_recv_handler(worker->inside_->worker, &handler);
    }
    static ucs_status_t on_message(void* user, const void* header, size_t header_bytes, void* data,
                                   size_t bytes, const ucp_am_recv_param_t* param) {
        auto* const listener = static_cast<UcxWorker*>(user)->listener_;
        if (listener == nullptr) return UCS_OK;
        const std::span head{static_cast<const std::byte*>(header), header_bytes};
        if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
            listener->on_offer(head, bytes, data);
            return UCS_INPROGRESS;
        }
        listener->on_message(head, {static_cast<const std::byte*>(data), bytes});
        return UCS_OK;
    }
    static void on_taken(void* request, ucs_status_t status, size_t bytes, void* user) {
        auto* taking = static_cast<UcxWorker::Taking*>(user);
        finish(taking, status == UCS_OK && bytes == taking->bytes);
        ucp_request_free(request);
    }
    static void on_sent(void* request, ucs_status_t, void* user) {
        finish(static_cast<UcxWorker::Sending*>(user));
        ucp_request_free(request);
    }
    static void on_reached(void* request, ucs_status_t status, void* user) {
        finish(static_cast<UcxWorker::Reaching*>(user), status == UCS_OK);
        ucp_request_free(request);
    }
    static void on_error(void* user, ucp_ep_h, ucs_status_t) {
        auto* endpoint = static_cast<UcxEndpoint*>(user);
        if (std::exchange(endpoint->broken, true)) return;
        if (endpoint->worker->listener_ != nullptr) endpoint->worker->listener_->on_broken(endpoint);
    }
    static void finish(UcxWorker::Sending* sending) {
        UcxWorker& worker = *sending->worker;
        --worker.sending_;
        if (sending->lent != 0 && worker.listener_ != nullptr) worker.listener_->on_sent(sending->lent);
        worker.free_.emplace_back(sending);
    }
    static void finish(UcxWorker::Taking* taking, bool ok) {
        UcxWorker& worker = *taking->worker;
        if (worker.listener_ != nullptr) worker.listener_->on_taken(taking->id, ok);
        worker.free_takings_.emplace_back(taking);
    }
    static void finish(UcxWorker::Reaching* reaching, bool ok) {
        UcxWorker& worker = *reaching->worker;
        if (worker.listener_ != nullptr) worker.listener_->on_reached(reaching->id, ok);
        worker.free_reachings_.emplace_back(reaching);
    }
    // Of each kind as many as were ever needed at once.
    template <class T>
    static std::unique_ptr<T> borrow(UcxWorker* worker, std::vector<std::unique_ptr<T>>* free) {
        if (free->empty()) {
            auto fresh = std::make_unique<T>();
            fresh->worker = worker;
            return fresh;
        }
        std::unique_ptr<T> used = std::move(free->back());
        free->pop_back();
        return used;
    }
};

UcxWorker::UcxWorker() : inside_(std::make_unique<Inside>()) {}

std::unique_ptr<UcxWorker> UcxWorker::create(std::string* error, Use use) {
    std::unique_ptr<UcxWorker> worker(new UcxWorker);
    if (!worker->start(use, error)) worker.reset();
    return worker;
}

bool UcxWorker::start(Use use, std::string* error) {
    use_ = use;
#ifndef LONGSHORE_UCX_EXPORTS
    if (use == Use::kAliases) {
        *error = kNoExports;
        return false;
    }
#endif
    const auto fail = [&](const char* what, ucs_status_t status) {
        *error = why(what, status);
        return false;
    };
    ucp_config_t* config = nullptr;
    forbid_old_registrations();
    // UCX_... is for the application's UCX, too; LONGSHORE_UCX_... is for this one alone, and comes before
    // it.
    ucs_status_t status = ucp_config_read("LONGSHORE", nullptr, &config);
    if (status != UCS_OK) return fail("the UCX_ settings cannot be read", status);
    ucp_config_modify(config, "RCACHE_ENABLE", "n");
    // Who has opened memory need not run while it is read and written, so it is not asked now and then
    // whether it is still there: one that is lost is noticed by what does not come to its end.
    if (use != Use::kMessages) ucp_config_modify(config, "KEEPALIVE_INTERVAL", "inf");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features_of(use);
    status = ucp_init(&params, config, &inside_->context);
    ucp_config_release(config);
    if (status != UCS_OK) return fail("UCX does not start", status);
    has_rdma_ = has_rdma_transport(ucx_info(ucp_context_print_info, inside_->context));

    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    status = ucp_worker_create(inside_->context, &worker_params, &inside_->worker);
    if (status != UCS_OK)
        return fail("UCX finds no network that it can use (LONGSHORE_UCX_TLS, LONGSHORE_UCX_NET_DEVICES)",
                    status);
    if (use == Use::kMessages && (status = UcxCalls::listen(this)) != UCS_OK)
        return fail("UCX has no active messages", status);
    status = ucp_worker_get_address(inside_->worker, &inside_->address, &inside_->address_bytes);
    if (status != UCS_OK) return fail("UCX has no address", status);
    status = ucp_worker_get_efd(inside_->worker, &event_fd_);
    if (status != UCS_OK) return fail("UCX cannot wait for its network", status);
    return true;
}

// Where an endpoint does not connect nothing is taken down: UCX stops where it closes such a one.
UcxWorker::~UcxWorker() {
    listener_ = nullptr;
    while (!inside_->endpoints.empty()) close(inside_->endpoints.back().get());
    const auto ends = [&] { return sending_ == 0 && inside_->closing.empty() && inside_->left.empty(); };
    for (int i = 0; i < kProgressAtEnd && !ends(); ++i) progress();
    if (!inside_->left.empty()) {
        (void)inside_.release();
        return;
    }
    while (!inside_->openings.empty()) close_memory(inside_->openings.back().get());
    if (inside_->address != nullptr) ucp_worker_release_address(inside_->worker, inside_->address);
    if (inside_->worker != nullptr) ucp_worker_destroy(inside_->worker);
    // What was under way to them has ended.
    while (!inside_->aliases.empty()) forget_alias(inside_->aliases.back().get());
    if (inside_->context != nullptr) ucp_cleanup(inside_->context);
}

std::span<const std::byte> UcxWorker::address() const {
    return {reinterpret_cast<const std::byte*>(inside_->address), inside_->address_bytes};
}

bool UcxWorker::arm() {
    return ucp_worker_arm(inside_->worker) == UCS_OK;
}

bool UcxWorker::progress() {
    const bool done = ucp_worker_progress(inside_->worker) != 0;
    for (size_t i = 0; i < inside_->left.size(); ++i) {
        if (is_connecting(inside_->left[i].get())) continue;
        close_now(std::move(inside_->left[i]));
        inside_->left.erase(inside_->left.begin() + static_cast<ptrdiff_t>(i--));
    }
    std::erase_if(inside_->closing, [](void* request) {
        if (ucp_request_check_status(request) == UCS_INPROGRESS) return false;
        ucp_request_free(request);
        return true;
    });
    return done;
}

UcxEndpoint* UcxWorker::connect(std::span<const std::byte> address) {
    auto endpoint = std::make_unique<UcxEndpoint>();
    endpoint->worker = this;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = UcxCalls::on_error;
    params.err_handler.arg = endpoint.get();
    if (address.empty() || ucp_ep_create(inside_->worker, &params, &endpoint->ep) != UCS_OK) return nullptr;
    // Over TCP nothing needs it. What reads and writes memory must end when it is closed, whether the other
    // side answers or not.
    if (use_ == Use::kMessages && has_rdma_) {
        const ucp_request_param_t none{};
        void* const flush = ucp_ep_flush_nbx(endpoint->ep, &none);
        if (UCS_PTR_IS_PTR(flush)) endpoint->connecting = flush;
    }
    inside_->endpoints.push_back(std::move(endpoint));
    return inside_->endpoints.back().get();
}

bool UcxWorker::is_connecting(UcxEndpoint* endpoint) {
    if (endpoint->connecting == nullptr) return false;
    if (ucp_request_check_status(endpoint->connecting) == UCS_INPROGRESS) return true;
    ucp_request_free(std::exchange(endpoint->connecting, nullptr));
    return false;
}

// What connects by InfiniBand's datagrams keeps its first messages until the other side answers; UCX (1.13)
// stops on an assertion of its own where they are still there when it closes.
void UcxWorker::close(UcxEndpoint* endpoint) {
    const auto at = std::find_if(inside_->endpoints.begin(), inside_->endpoints.end(),
                                 [&](const auto& e) { return e.get() == endpoint; });
    LONGSHORE_CHECK(at != inside_->endpoints.end());
    endpoint->broken = true;
    std::unique_ptr<UcxEndpoint> over = std::move(*at);
    inside_->endpoints.erase(at);
    if (is_connecting(endpoint)) {
        inside_->left.push_back(std::move(over));
    } else {
        close_now(std::move(over));
    }
}

void UcxWorker::close_now(std::unique_ptr<UcxEndpoint> endpoint) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* const request = ucp_ep_close_nbx(endpoint->ep, &param);
    if (UCS_PTR_IS_PTR(request)) inside_->closing.push_back(request);
    inside_->closed.push_back(std::move(endpoint));
}

bool UcxWorker::send(UcxEndpoint* endpoint, std::span<const std::byte> header,
                     std::span<const std::byte> payload, uint64_t lent, bool offered) {
    LONGSHORE_CHECK(header.size() <= kHeaderBytesMax);
    if (endpoint->broken) return false;
    std::unique_ptr<Sending> sending = UcxCalls::borrow(this, &free_);
    sending->lent = lent;
    memcpy(sending->header, header.data(), header.size());
    if (lent == 0) {
        sending->copy.assign(payload.begin(), payload.end());
        payload = sending->copy;
    }
    ucp_request_param_t param{};
    // Never as UCX would choose: a rendezvous may overtake or be overtaken.
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = offered ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = UcxCalls::on_sent;
    param.user_data = sending.get();
    ++sending_;
    Sending* const at = sending.release();
    const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint->ep, kMessageId, at->header, header.size(),
                                                     payload.data(), payload.size(), &param);
    if (UCS_PTR_IS_PTR(request)) return true;
    UcxCalls::finish(at);
    return true;
}

void UcxWorker::take(UcxOffer offer, std::span<std::byte> to, uint64_t id) {
    std::unique_ptr<Taking> taking = UcxCalls::borrow(this, &free_takings_);
    taking->id = id;
    taking->bytes = to.size();
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.cb.recv_am = UcxCalls::on_taken;
    param.user_data = taking.get();
    Taking* const at = taking.release();
    const ucs_status_ptr_t request =
        ucp_am_recv_data_nbx(inside_->worker, offer, to.data(), to.size(), &param);
    if (!UCS_PTR_IS_PTR(request)) UcxCalls::finish(at, request == nullptr);
}

void UcxWorker::decline(UcxOffer offer) {
    ucp_am_data_release(inside_->worker, offer);
}

UcxOpening* UcxWorker::open_memory(std::span<std::byte> memory, std::vector<std::byte>* key,
                                   std::string* error) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory.data();
    params.length = memory.size();
    auto opening = std::make_unique<UcxOpening>();
    ucs_status_t status = ucp_mem_map(inside_->context, &params, &opening->memory);
    if (status != UCS_OK) {
        *error = why("memory cannot be registered with the network (ulimit -l)", status);
        return nullptr;
    }
    UcxOpening* const at = inside_->openings.emplace_back(std::move(opening)).get();
    void* packed = nullptr;
    size_t bytes = 0;
    status = ucp_rkey_pack(inside_->context, at->memory, &packed, &bytes);
    if (status != UCS_OK) {
        *error = why("the network gives no key to memory", status);
        close_memory(at);
        return nullptr;
    }
    const auto* const first = static_cast<const std::byte*>(packed);
    key->assign(first, first + bytes);
    ucp_rkey_buffer_release(packed);
    return at;
}

void UcxWorker::close_memory(UcxOpening* opening) {
    ucp_mem_unmap(inside_->context, opening->memory);
    std::erase_if(inside_->openings, [&](const auto& o) { return o.get() == opening; });
}

bool UcxWorker::export_memory(const UcxOpening* opening, std::vector<std::byte>* exported,
                              std::string* error) {
#ifdef LONGSHORE_UCX_EXPORTS
    ucp_memh_pack_params_t params{};
    params.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS;
    params.flags = UCP_MEMH_PACK_FLAG_EXPORT;
    void* packed = nullptr;
    size_t bytes = 0;
    const ucs_status_t status = ucp_memh_pack(opening->memory, &params, &packed, &bytes);
    if (status != UCS_OK) {
        *error = why((domains_of(inside_->context) + " exports no memory").c_str(), status);
        return false;
    }
    const UcxVersion version;
    const auto* const first = static_cast<const std::byte*>(packed);
    *exported = encode_exported({version.major, version.minor, version.release, {first, first + bytes}});
    const ucp_memh_buffer_release_params_t none{};
    ucp_memh_buffer_release(packed, &none);
    if (exported->empty())
        *error =
            "what UCX says of exported memory is too long; use fewer devices (LONGSHORE_UCX_NET_DEVICES)";
    return !exported->empty();
#else
    *error = kNoExports;
    return false;
#endif
}

UcxAlias* UcxWorker::import_alias(std::span<const std::byte> exported, uint64_t address, uint64_t bytes,
                                  std::string* error) {
#ifdef LONGSHORE_UCX_EXPORTS
    ExportedMemory memory;
    const UcxVersion here;
    if (!decode_exported(exported, &memory)) {
        *error = "it is exported in a form that is not known here";
        return nullptr;
    }
    if (memory.ucx_major != here.major || memory.ucx_minor != here.minor) {
        *error = "it is exported by UCX " + std::to_string(memory.ucx_major) + "." +
                 std::to_string(memory.ucx_minor) + ", and UCX " + ucx_version() + " is here";
        return nullptr;
    }
    memory.handle.resize(memory.handle.size() + kKeyPaddingBytes);  // as with keys
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER;
    params.exported_memh_buffer = memory.handle.data();
    auto alias = std::make_unique<UcxAlias>();
    const ucs_status_t status = ucp_mem_map(inside_->context, &params, &alias->memory);
    if (status != UCS_OK) {
        *error = why((domains_of(inside_->context) + " makes none").c_str(), status);
        return nullptr;
    }
    UcxAlias* const at = inside_->aliases.emplace_back(std::move(alias)).get();
    ucp_mem_attr_t is{};
    is.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
    ucp_mem_query(at->memory, &is);
    const auto begin = reinterpret_cast<uint64_t>(is.address);
    if (address >= begin && address - begin <= is.length && bytes <= is.length - (address - begin)) return at;
    *error = "it is not of the memory that it is said to be";
    forget_alias(at);
#else
    *error = kNoExports;
#endif
    return nullptr;
}

void UcxWorker::forget_alias(UcxAlias* alias) {
    ucp_mem_unmap(inside_->context, alias->memory);
    std::erase_if(inside_->aliases, [&](const auto& a) { return a.get() == alias; });
}

UcxKey* UcxWorker::import_key(UcxEndpoint* endpoint, std::span<const std::byte> key) {
    // UCX is not told how long it is: what it reads behind its end is nothing.
    std::vector<std::byte> padded(key.size() + kKeyPaddingBytes);
    std::copy(key.begin(), key.end(), padded.begin());
    auto imported = std::make_unique<UcxKey>();
    if (endpoint->broken || key.empty() ||
        ucp_ep_rkey_unpack(endpoint->ep, padded.data(), &imported->key) != UCS_OK)
        return nullptr;
    return imported.release();
}

void UcxWorker::forget_key(UcxKey* key) {
    ucp_rkey_destroy(key->key);
    delete key;
}

void UcxWorker::get(UcxEndpoint* endpoint, UcxKey* key, uint64_t from, std::span<std::byte> to, uint64_t id,
                    const UcxAlias* alias) {
    auto reaching = UcxCalls::borrow(this, &free_reachings_);
    reaching->id = id;
    Reaching* const at = reaching.release();
    if (endpoint->broken) return UcxCalls::finish(at, false);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = UcxCalls::on_reached;
    param.user_data = at;
    if (alias != nullptr) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = alias->memory;
    }
    const ucs_status_ptr_t request = ucp_get_nbx(endpoint->ep, to.data(), to.size(), from, key->key, &param);
    if (!UCS_PTR_IS_PTR(request)) UcxCalls::finish(at, request == nullptr);
}

// The end of a put says that the memory here is free again, that of the flush behind it that the bytes are
// there.
void UcxWorker::put(UcxEndpoint* endpoint, UcxKey* key, std::span<const std::byte> from, uint64_t to,
                    uint64_t id) {
    auto reaching = UcxCalls::borrow(this, &free_reachings_);
    reaching->id = id;
    Reaching* const at = reaching.release();
    if (endpoint->broken) return UcxCalls::finish(at, false);
    ucp_request_param_t param{};
    const ucs_status_ptr_t sent = ucp_put_nbx(endpoint->ep, from.data(), from.size(), to, key->key, &param);
    if (UCS_PTR_IS_PTR(sent)) ucp_request_free(sent);
    if (UCS_PTR_IS_ERR(sent)) return UcxCalls::finish(at, false);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = UcxCalls::on_reached;
    param.user_data = at;
    const ucs_status_ptr_t flushed = ucp_ep_flush_nbx(endpoint->ep, &param);
    if (!UCS_PTR_IS_PTR(flushed)) UcxCalls::finish(at, flushed == nullptr);
}

std::string ucx_version() {
    const UcxVersion v;
    return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.release);
}

}  // namespace longshore
