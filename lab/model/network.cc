#include "model/network.h"

#include <algorithm>

namespace longshore::timed {

uint32_t Network::add_server(uint64_t bytes_per_second, Time latency, Time gap) {
    LONGSHORE_CHECK(bytes_per_second > 0);
    servers_.push_back({.rate = bytes_per_second, .latency = latency, .gap = gap});
    return static_cast<uint32_t>(servers_.size() - 1);
}

Time Network::service_time(const Server& server, uint64_t bytes) const {
    return std::max(server.gap, time_of(bytes, server.rate));
}

uint32_t Network::take(const Transfer& transfer) {
    LONGSHORE_CHECK(transfer.way.size() <= kHopsMax && transfer.to != nullptr);
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(items_.size()));
        items_.emplace_back();
    }
    const uint32_t item = free_.back();
    free_.pop_back();
    UnderWay& one = items_[item];
    std::copy(transfer.way.begin(), transfer.way.end(), one.way.begin());
    one.hops = static_cast<uint16_t>(transfer.way.size());
    one.hop = 0;
    one.bytes = transfer.bytes;
    one.rate_max = transfer.rate_max;
    one.to = transfer.to;
    one.tag = transfer.tag;
    one.last = 0;
    ++transfers_;
    return item;
}

void Network::arrive(uint32_t item) {
    Arrivals* const to = items_[item].to;
    const uint64_t tag = items_[item].tag;
    free_.push_back(item);
    to->on_arrival(tag);
}

namespace {

class FifoNetwork final : public Network, private Actor {
  public:
    explicit FifoNetwork(EventQueue& queue) : queue_(queue) {}
    void send(const Transfer& transfer) override { queue_.after(transfer.delay, *this, take(transfer)); }

  private:
    void foresee(uint64_t what) const override { __builtin_prefetch(&items_[static_cast<uint32_t>(what)]); }
    // The head is at a server, or the last byte at the end.
    void on_event(uint64_t what) override {
        const auto item = static_cast<uint32_t>(what);
        UnderWay& one = items_[item];
        if (one.hop == one.hops) {
            arrive(item);
            return;
        }
        Server& server = servers_[one.way[one.hop++]];
        const Time service = service_time(server, one.bytes);
        const Time begin = enter(&server, service, one.bytes <= kPacketBytes);
        server.busy += service;
        server.bytes += one.bytes;
        Time end = begin + service;
        if (one.rate_max != 0) end = std::max(end, begin + time_of(one.bytes, one.rate_max));
        one.last = std::max(end, one.last) + server.latency;
        queue_.at(one.hop == one.hops ? one.last : begin + server.latency, *this, item);
    }

    // Takes a server for so long; when that begins.
    Time enter(Server* server, Time service, bool is_short) {
        if (!is_short) {
            const Time begin = std::max(queue_.now(), server->free_at);
            server->free_at = begin + service;
            return begin;
        }
        const Time begin = std::max(queue_.now(), server->free_for_short_at);
        server->free_for_short_at = begin + service;
        server->free_at = std::max(begin, server->free_at) + service;
        return begin;
    }

    EventQueue& queue_;
};

// All transfers under way at once: at each begin and end all rates are found anew, by filling up the server
// with the smallest share first. For small jobs alone.
class SharedNetwork final : public Network, private Actor {
  public:
    explicit SharedNetwork(EventQueue& queue) : queue_(queue) {}

    void send(const Transfer& transfer) override {
        Time delay = transfer.delay;
        for (const uint32_t server : transfer.way) delay += servers_[server].latency;
        queue_.after(delay, *this, take(transfer));
    }

  private:
    static constexpr uint64_t kLook = UINT64_MAX;
    struct Flow {
        uint32_t item;
        double left, rate = 0;
    };

    void on_event(uint64_t what) override {
        if (what == kLook) {
            if (queue_.now() != look_at_) return;  // the rates have changed since
            progress();
            finish();
        } else {
            const auto item = static_cast<uint32_t>(what);
            const UnderWay& one = items_[item];
            if (one.hops == 0 || one.bytes == 0) {
                arrive(item);
                return;
            }
            progress();
            for (uint32_t h = 0; h < one.hops; ++h) servers_[one.way[h]].bytes += one.bytes;
            flows_.push_back({item, static_cast<double>(one.bytes)});
        }
        share();
    }

    void progress() {
        const double seconds = static_cast<double>(queue_.now() - at_) * 1e-12;
        for (Flow& flow : flows_) flow.left -= flow.rate * seconds;
        at_ = queue_.now();
    }

    void finish() {
        std::vector<uint32_t> over;
        std::erase_if(flows_, [&](const Flow& flow) {
            if (flow.left > kDone) return false;
            over.push_back(flow.item);
            return true;
        });
        for (const uint32_t item : over) arrive(item);
    }

    void share() {
        std::vector<double> left(servers_.size());
        std::vector<uint32_t> users(servers_.size(), 0);
        for (size_t s = 0; s < servers_.size(); ++s) left[s] = static_cast<double>(servers_[s].rate);
        std::vector<Flow*> open;
        for (Flow& flow : flows_) {
            open.push_back(&flow);
            for (const uint32_t server : way(flow)) ++users[server];
        }
        while (!open.empty()) fix_slowest(&open, &left, &users);
        double seconds = 1e9;
        for (const Flow& flow : flows_) seconds = std::min(seconds, std::max(0.0, flow.left) / flow.rate);
        if (flows_.empty()) return;
        look_at_ = queue_.now() + static_cast<Time>(seconds * 1e12) + 1;
        queue_.at(look_at_, *this, kLook);
    }

    // Of all flows whose rate is open, those that the fullest server (or their own limit) holds down most get
    // their rates.
    void fix_slowest(std::vector<Flow*>* open, std::vector<double>* left, std::vector<uint32_t>* users) {
        const auto share_of = [&](const Flow& flow) {
            const uint64_t own = items_[flow.item].rate_max;
            double least = own != 0 ? static_cast<double>(own) : 1e30;
            for (const uint32_t server : way(flow))
                least = std::min(least, (*left)[server] / (*users)[server]);
            return least;
        };
        double slowest = 1e30;
        for (const Flow* flow : *open) slowest = std::min(slowest, share_of(*flow));
        std::vector<Flow*> rest, fixed;
        for (Flow* flow : *open) (share_of(*flow) <= slowest * (1 + 1e-9) ? fixed : rest).push_back(flow);
        for (Flow* flow : fixed) {
            flow->rate = slowest;
            for (const uint32_t server : way(*flow)) {
                (*left)[server] = std::max(1.0, (*left)[server] - slowest);
                --(*users)[server];
            }
        }
        open->swap(rest);
    }

    std::span<const uint32_t> way(const Flow& flow) const {
        const UnderWay& one = items_[flow.item];
        return {one.way.data(), one.hops};
    }

    static constexpr double kDone = 0.5;  // bytes
    EventQueue& queue_;
    std::vector<Flow> flows_;
    Time at_ = 0, look_at_ = 0;
};

}  // namespace

std::unique_ptr<Network> make_network(EventQueue& queue, Sharing sharing) {
    if (sharing == Sharing::kMaxMin) return std::make_unique<SharedNetwork>(queue);
    return std::make_unique<FifoNetwork>(queue);
}

}  // namespace longshore::timed
