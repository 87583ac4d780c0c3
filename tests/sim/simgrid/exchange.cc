// One collective of a host's MPI as SimGrid sees it: the machine of 'longshore simulate' as links that fluid
// flows share, messages that are announced, asked for and sent. Prints the mean time of a rank in
// microseconds.
//
// exchange PATTERN NODES RANKS_PER_NODE BYTES BUS_RATE BUS_LATENCY LINK_RATE LINK_LATENCY SWITCH_LATENCY
// (bytes a second, seconds). PATTERN: pairwise, linear or ring; ranks of the same number on all nodes are a
// group.
#include <cstdio>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

constexpr int kHeaderBytes = 64;

struct Node {
    sg4::Link *bus_out, *bus_in, *up, *down;
};

struct Rank {
    sg4::Host* host;
    std::vector<sg4::SemaphorePtr> entered;  // by round: released for each message that is to come in it
    sg4::SemaphorePtr done;                  // a message of this rank, either way, is over
};

class Exchange {
  public:
    explicit Exchange(char** words)
        : pattern_(words[1]),
          nodes_(std::atoi(words[2])),
          per_node_(std::atoi(words[3])),
          bytes_(static_cast<uint64_t>(std::atoll(words[4]))) {
        make_platform(words + 5);
    }

    double mean_us() {
        for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
            sg4::Actor::create("rank", ranks_[r].host, [this, r] { be_rank(r); });
        sg4::Engine::get_instance()->run();
        return 1e6 * sum_ / static_cast<double>(ranks_.size());
    }

  private:
    int rounds() const { return pattern_ == "linear" ? 1 : nodes_ - 1; }

    void make_platform(char** words) {
        const double bus_rate = std::atof(words[0]), bus_latency = std::atof(words[1]);
        const double link_rate = std::atof(words[2]), link_latency = std::atof(words[3]);
        const double switch_latency = std::atof(words[4]);
        auto* const zone = sg4::create_full_zone("machine");
        std::vector<Node> nodes;
        for (int n = 0; n < nodes_; ++n) {
            const auto link = [&](const char* what, double rate, double latency) {
                auto* const made = zone->create_link(what + std::to_string(n), rate);
                made->set_latency(latency)->seal();
                return made;
            };
            nodes.push_back({link("out", bus_rate, bus_latency), link("in", bus_rate, bus_latency),
                             link("up", link_rate, link_latency + switch_latency),
                             link("down", link_rate, link_latency)});
        }
        for (int r = 0; r < nodes_ * per_node_; ++r) {
            Rank rank{zone->create_host("rank" + std::to_string(r), 1e9), {}, sg4::Semaphore::create(0)};
            for (int i = 0; i < rounds(); ++i) rank.entered.push_back(sg4::Semaphore::create(0));
            rank.host->seal();
            ranks_.push_back(rank);
        }
        for (int a = 0; a < nodes_ * per_node_; ++a)
            for (int b = 0; b < nodes_ * per_node_; ++b) {
                if (a % per_node_ != b % per_node_ || a == b) continue;
                const Node &from = nodes[a / per_node_], &to = nodes[b / per_node_];
                zone->add_route(ranks_[a].host->get_netpoint(), ranks_[b].host->get_netpoint(), nullptr,
                                nullptr,
                                {sg4::LinkInRoute(from.bus_out), sg4::LinkInRoute(from.up),
                                 sg4::LinkInRoute(to.down), sg4::LinkInRoute(to.bus_in)},
                                false);
            }
        zone->seal();
    }

    // To whom a rank sends in a round, by its node, and how many messages it gets then.
    std::vector<int> targets(int node, int round) const {
        std::vector<int> all;
        if (pattern_ == "linear") {
            for (int step = 1; step < nodes_; ++step) all.push_back((node + step) % nodes_);
        } else {
            all.push_back((node + (pattern_ == "ring" ? 1 : round + 1)) % nodes_);
        }
        return all;
    }

    void be_rank(int r) {
        Rank& rank = ranks_[static_cast<size_t>(r)];
        for (int round = 0; round < rounds(); ++round) {
            const std::vector<int> to = targets(r / per_node_, round);
            for (size_t i = 0; i < to.size(); ++i) rank.entered[static_cast<size_t>(round)]->release();
            for (const int node : to) {
                const int peer = node * per_node_ + r % per_node_;
                sg4::Actor::create("message", rank.host, [=, this] { carry(r, peer, round); });
            }
            for (size_t i = 0; i < 2 * to.size(); ++i) rank.done->acquire();
        }
        sum_ += sg4::Engine::get_clock();
    }

    // Announced, and read by the receiver when it has come to the same round.
    void carry(int from, int to, int round) {
        Rank &source = ranks_[static_cast<size_t>(from)], &target = ranks_[static_cast<size_t>(to)];
        sg4::Comm::sendto(source.host, target.host, kHeaderBytes);
        target.entered[static_cast<size_t>(round)]->acquire();
        sg4::Comm::sendto(target.host, source.host, kHeaderBytes);
        sg4::Comm::sendto(source.host, target.host, bytes_);
        target.done->release();
        source.done->release();
    }

    const std::string pattern_;
    const int nodes_, per_node_;
    const uint64_t bytes_;
    std::vector<Rank> ranks_;
    double sum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    sg4::Engine engine(&argc, argv);
    if (argc != 10) {
        std::fprintf(stderr, "exchange PATTERN NODES RANKS_PER_NODE BYTES and five values of the machine\n");
        return 2;
    }
    std::printf("%.3f\n", Exchange(argv).mean_us());
    return 0;
}
