#include "fabric/tcp/door.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace longshore {

struct Door::Knock {
    enum class Stage : uint8_t {
        kConnecting,
        kWantHello,
        kWantChallenge,
        kWantProof,
        kWantWelcome,
    };
    uint64_t number = 0;
    Stage stage = Stage::kWantHello;
    Stream stream;
    Met met;
    std::array<std::byte, kHelloBytes> hello{};
    std::array<std::byte, kChallengeBytes> challenge{};
    std::array<std::byte, kChallengeBytes> in{};  // of the message that is awaited
    size_t in_bytes = 0;
    std::array<std::byte, kChallengeBytes> out{};  // not sent yet
    size_t out_bytes = 0;
    uint64_t since_ns = 0;
    Failure failure;
    bool done = false;
    // A socket for TLS, whose handshake begins when it is connected.
    Fd socket;
};

Door::Door(const Options& options, Fd streams, int epoll, Owner& owner)
    : options_(options), streams_(std::move(streams)), epoll_(epoll), owner_(owner) {}

Door::~Door() = default;

std::unique_ptr<Door> Door::create(const Options& options, Fd streams, int epoll, Owner& owner,
                                   std::string* error) {
    std::unique_ptr<Door> door(new Door(options, std::move(streams), epoll, owner));
    if (options.tls && (door->tls_ = TlsContext::create(error)) == nullptr) return nullptr;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kEventBit;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, door->streams_.get(), &event) != 0) {
        *error = std::string("cannot wait for connections: ") + strerror(errno);
        return nullptr;
    }
    return door;
}

void Door::add(std::unique_ptr<Knock> knock) {
    knock->number = kEventBit | ++numbers_;
    knock->since_ns = awake_ns();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = knock->number;
    const int fd = knock->stage == Knock::Stage::kConnecting ? knock->socket.get() : knock->stream.fd();
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) knocks_.push_back(std::move(knock));
}

void Door::open(const Hello& hello, const TcpAddress& address, uint16_t port) {
    auto knock = std::make_unique<Knock>();
    knock->stage = Knock::Stage::kConnecting;
    knock->met.hello = hello;
    knock->met.connected = true;
    sockaddr_storage to;
    const socklen_t bytes = socket_address(address, port, &to);
    knock->socket = Fd(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int fd = knock->socket.get();
    if (fd >= 0) set_up_stream(fd, options_.probes);
    if (fd >= 0) set_up_for(hello.kind, fd);
    if (fd < 0 || !draw_nonce(&knock->met.hello.nonce) ||
        (connect(fd, reinterpret_cast<sockaddr*>(&to), bytes) != 0 && errno != EINPROGRESS))
        return owner_.on_failed(hello.to, hello.kind, {errno});
    encode_hello(knock->met.hello, knock->hello);
    add(std::move(knock));
}

void Door::set_up_for(StreamKind kind, int fd) const {
    if (kind == StreamKind::kData) set_up_for_data(fd, options_.buffer_bytes);
    if (kind == StreamKind::kTasks) set_up_for_tasks(fd, options_.probes);
}

void Door::give_up(ServiceAddress peer) {
    for (size_t i = knocks_.size(); i-- > 0;) {
        if (knocks_[i]->met.connected && knocks_[i]->met.hello.to == peer) end(i, false);
    }
}

bool Door::has_reached(ServiceAddress peer) const {
    return std::any_of(knocks_.begin(), knocks_.end(), [&](const auto& k) {
        return k->met.connected && k->met.hello.to == peer && k->stage != Knock::Stage::kConnecting;
    });
}

void Door::accept() {
    for (int i = 0; i < 16; ++i) {
        char word;
        size_t bytes = 0;
        std::vector<Fd> sockets;
        const Io io = receive_packet(streams_, &word, sizeof word, &bytes, &sockets);
        if (io == Io::kClosed && errno == EMFILE) {
            owner_.on_full();
            continue;
        }
        if (io == Io::kClosed) return streams_.reset();  // the supervisor has gone
        if (io == Io::kAgain) return;
        if (sockets.empty()) continue;
        Fd socket = std::move(sockets.front());
        // The oldest stranger makes room: who floods the port keeps nobody out for longer than that takes.
        const auto is_stranger = [](const auto& k) { return !k->met.connected; };
        if (static_cast<size_t>(std::count_if(knocks_.begin(), knocks_.end(), is_stranger)) >= kStrangersMax)
            end(static_cast<size_t>(std::find_if(knocks_.begin(), knocks_.end(), is_stranger) -
                                    knocks_.begin()),
                true);
        set_up_stream(socket.get(), options_.probes);
        auto knock = std::make_unique<Knock>();
        const NodeAddress& own = (*options_.nodes)[options_.self.node.value];
        knock->stream = tls_ ? Stream(std::move(socket), *tls_, false, own.token) : Stream(std::move(socket));
        if (knock->stream) add(std::move(knock));
    }
}

void Door::on_event(uint64_t number) {
    if (number == kEventBit) return accept();
    // Their numbers ascend.
    const auto find = [&] {
        const auto from = std::lower_bound(knocks_.begin(), knocks_.end(), number,
                                           [](const auto& k, uint64_t n) { return k->number < n; });
        return from != knocks_.end() && (*from)->number == number ? from : knocks_.end();
    };
    auto at = find();
    if (at == knocks_.end()) return;
    Knock& knock = **at;
    const bool goes_on = advance(knock);
    if (goes_on && !knock.done) return;
    // What it led to may have ended others: it may stand elsewhere now.
    at = find();
    if (!goes_on) return end(static_cast<size_t>(at - knocks_.begin()), true);
    const std::unique_ptr<Knock> met = std::move(*at);
    knocks_.erase(at);
    // The owner waits for it in its own way.
    epoll_ctl(epoll_, EPOLL_CTL_DEL, met->stream.fd(), nullptr);
    owner_.take_in(met->met, std::move(met->stream));
}

void Door::end(size_t at, bool failed) {
    const std::unique_ptr<Knock> knock = std::move(knocks_[at]);
    knocks_.erase(knocks_.begin() + static_cast<ptrdiff_t>(at));
    if (failed && knock->met.connected)
        owner_.on_failed(knock->met.hello.to, knock->met.hello.kind, knock->failure);
}

void Door::look(uint64_t now) {
    for (size_t i = knocks_.size(); i-- > 0;) {
        if (i >= knocks_.size() || now - std::min(now, knocks_[i]->since_ns) < options_.limit_ns) continue;
        knocks_[i]->failure.error = ETIMEDOUT;
        end(i, true);
    }
}

bool Door::refuse(Knock& knock, const char* what) {
    knock.failure.refused = what;
    owner_.refuse(what);
    return false;
}

// False: the other end has closed.
bool Door::fill(Knock& knock, size_t bytes, bool* whole) {
    while (knock.in_bytes < bytes) {
        const iovec part{knock.in.data() + knock.in_bytes, bytes - knock.in_bytes};
        size_t received = 0;
        const Io io = knock.stream.receive({&part, 1}, &received);
        if (io == Io::kClosed) {
            knock.failure.error = knock.stream.error() != 0 ? knock.stream.error() : ECONNRESET;
            return false;
        }
        if (io == Io::kAgain) break;
        knock.in_bytes += received;
    }
    *whole = knock.in_bytes == bytes;
    if (*whole) knock.in_bytes = 0;
    return true;
}

// False: the other end has closed. What does not go at once goes with the next event.
bool Door::say(Knock& knock, std::span<const std::byte> bytes) {
    if (!bytes.empty()) memcpy(knock.out.data(), bytes.data(), bytes.size());
    knock.out_bytes += bytes.size();
    while (knock.out_bytes != 0) {
        const iovec part{knock.out.data(), knock.out_bytes};
        size_t sent = 0;
        const Io io = knock.stream.send({&part, 1}, &sent);
        if (io == Io::kClosed) knock.failure.error = knock.stream.error();
        if (io != Io::kOk) return io == Io::kAgain;
        memmove(knock.out.data(), knock.out.data() + sent, knock.out_bytes - sent);
        knock.out_bytes -= sent;
    }
    return true;
}

// As far as it goes now. False: it is over, and nothing has come of it.
bool Door::advance(Knock& knock) {
    using Stage = Knock::Stage;
    if (knock.stage == Stage::kConnecting) {
        knock.failure.error = connect_error(knock.socket.get());
        if (knock.failure.error != 0) return false;
        sockaddr_storage peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(knock.socket.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) != 0)
            return true;  // not yet
        std::array<std::byte, kPrefaceBytes> preface;
        encode_preface(knock.met.hello.to.service, preface);
        if (::send(knock.socket.get(), preface.data(), preface.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(preface.size())) {
            knock.failure.error = errno;
            return false;
        }
        const NodeAddress& other = (*options_.nodes)[knock.met.hello.to.node.value];
        knock.stream = tls_ ? Stream(std::move(knock.socket), *tls_, true, other.token)
                            : Stream(std::move(knock.socket));
        if (!knock.stream) {
            knock.failure.error = ENOMEM;
            return false;
        }
        knock.stage = Stage::kWantChallenge;
        if (!say(knock, knock.hello)) return false;
    }
    for (;;) {
        if (!say(knock, {})) return false;
        if (knock.out_bytes != 0) return true;
        bool whole = false;
        switch (knock.stage) {
            case Stage::kConnecting:
                return true;
            case Stage::kWantHello:
                if (!fill(knock, kHelloBytes, &whole)) return false;
                if (!whole) return true;
                if (!take_hello(knock)) return false;
                break;
            case Stage::kWantChallenge:
                if (!fill(knock, kChallengeBytes, &whole)) return false;
                if (!whole) return true;
                if (!take_challenge(knock)) return false;
                break;
            case Stage::kWantProof:
                if (!fill(knock, kProofBytes, &whole)) return false;
                if (!whole) return true;
                if (!take_proof(knock)) return false;
                return knock.done = true;
            case Stage::kWantWelcome:
                if (!fill(knock, kWelcomeBytes, &whole)) return false;
                if (!whole) return true;
                if (!is_welcome(std::span(knock.in).first<kWelcomeBytes>()))
                    return refuse(knock, "a stream that does not keep to the handshake");
                return knock.done = true;
        }
    }
}

bool Door::take_hello(Knock& knock) {
    memcpy(knock.hello.data(), knock.in.data(), kHelloBytes);
    Hello& hello = knock.met.hello;
    if (!decode_hello(knock.hello, &hello))
        return refuse(knock, "a stream that is none of ours, or of another version");
    const auto& nodes = *options_.nodes;
    if (hello.to != options_.self || hello.from.node == options_.self.node ||
        hello.from.node.value >= nodes.size() ||
        hello.from.service.value >= nodes[hello.from.node.value].services)
        return refuse(knock, "a stream that is not for this service process");
    knock.met.incarnation = hello.incarnation;
    Challenge challenge;
    challenge.incarnation = options_.incarnation;
    if (!draw_nonce(&challenge.nonce)) return false;
    encode_challenge(challenge, knock.challenge);
    const NodeAddress& own = nodes[options_.self.node.value];
    challenge.proof = prove(own.token, ProofRole::kAccepts, own.name, knock.hello, knock.challenge);
    encode_challenge(challenge, knock.challenge);
    knock.stage = Knock::Stage::kWantProof;
    return say(knock, knock.challenge);
}

bool Door::take_challenge(Knock& knock) {
    memcpy(knock.challenge.data(), knock.in.data(), kChallengeBytes);
    Challenge challenge;
    const NodeAddress& other = (*options_.nodes)[knock.met.hello.to.node.value];
    if (!decode_challenge(knock.challenge, &challenge) ||
        !same_proof(challenge.proof,
                    prove(other.token, ProofRole::kAccepts, other.name, knock.hello, knock.challenge)))
        return refuse(knock, "the answer of somebody who does not know the job's token");
    knock.met.incarnation = challenge.incarnation;
    knock.stage = Knock::Stage::kWantWelcome;
    return say(knock, prove(other.token, ProofRole::kConnects, other.name, knock.hello, knock.challenge));
}

bool Door::take_proof(Knock& knock) {
    Proof proof;
    memcpy(proof.data(), knock.in.data(), sizeof proof);
    const NodeAddress& own = (*options_.nodes)[options_.self.node.value];
    if (!same_proof(proof, prove(own.token, ProofRole::kConnects, own.name, knock.hello, knock.challenge)))
        return refuse(knock, "a stream of somebody who does not know the job's token");
    if (!owner_.admit(knock.met)) return false;
    set_up_for(knock.met.hello.kind, knock.stream.fd());
    std::array<std::byte, kWelcomeBytes> welcome;
    encode_welcome(welcome);
    return say(knock, welcome) && knock.out_bytes == 0;
}

}  // namespace longshore
