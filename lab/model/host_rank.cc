#include "model/host_rank.h"

#include <algorithm>
#include <utility>

namespace longshore::timed {
namespace {

constexpr uint64_t kHeaderBytes = 64;
constexpr uint64_t kPeer = (uint64_t{1} << 30) - 1;

}  // namespace

void HostRank::enter_at(Time time) {
    world_.queue().at(time, *this, kEnter);
}

void HostRank::on_event(uint64_t what) {
    switch (what) {
        case kEnter:
            entered_ = world_.queue().now();
            open_ = true;
            starting_ = true;
            compute_left_ = world_.job().compute_of(rank_);
            round_ = 0;
            begin_round();
            step();
            break;
        case kStep:
            busy_ = false;
            step();
            break;
        case kDone:
            world_.rank_is_done(rank_, world_.queue().now() - entered_);
            break;
        default:
            end_slice(what - kSlices);
    }
}

void HostRank::on_arrival(uint64_t tag) {
    if (Note(tag >> 60) == Note::kCopied) {
        // The core itself did it.
        copying_ = false;
        busy_ = false;
        inbox_.push_front(tag);
    } else {
        inbox_.push_back(tag);
    }
    if (computing_ && world_.job().progress == HostProgress::kThread) {
        stop_computing();
        after(world_.machine().mpi_thread_wake_up);
    }
    step();
}

void HostRank::begin_round() {
    now_.sends.clear();
    now_.receives.clear();
    if (round_ == world_.rounds()) return;
    world_.round(rank_, round_, &now_);
    posted_ = 0;
    pending_ = now_.sends.size() + now_.receives.size();
    // What came for this round before it began.
    const auto first = std::stable_partition(early_.begin(), early_.end(),
                                             [&](uint64_t tag) { return ((tag >> 30) & kPeer) != round_; });
    inbox_.insert(inbox_.end(), first, early_.end());
    early_.erase(first, early_.end());
}

// Until it is over, or until the next test; when all has come there is nothing to test for.
void HostRank::compute() {
    Time slice = compute_left_;
    const bool is_over = pending_ == 0 && is_last_round();
    if (world_.job().progress == HostProgress::kTests && !is_over)
        slice = std::min(slice, world_.job().test_every);
    computing_ = true;
    slice_begin_ = world_.queue().now();
    world_.queue().after(slice, *this, kSlices + ++slice_);
}

void HostRank::stop_computing() {
    computing_ = false;
    compute_left_ -= world_.queue().now() - slice_begin_;
}

void HostRank::end_slice(uint64_t number) {
    if (!computing_ || number != slice_) return;  // a progress thread came between
    stop_computing();
    if (compute_left_ != 0) after(world_.machine().rank_test);  // a call of MPI_Test
    step();
}

void HostRank::after(Time cost) {
    busy_ = true;
    world_.queue().after(world_.step_time(cost), *this, kStep);
}

// Whatever is next for this rank's core: first all of a round is posted, then what has come is taken in.
void HostRank::step() {
    if (!open_ || busy_ || computing_) return;
    if (post_next()) return;
    // When the first round is posted the call that starts the collective is over.
    const bool returns = std::exchange(starting_, false) && compute_left_ != 0;
    if (returns && world_.job().progress != HostProgress::kThread) {
        compute();
        return;
    }
    if (take_next()) return;
    if (pending_ == 0 && !is_last_round()) {
        ++round_;
        begin_round();
        step();
        return;
    }
    if (compute_left_ != 0) {
        compute();
        return;
    }
    if (pending_ != 0) return;
    open_ = false;
    round_ = world_.rounds();
    world_.queue().after(world_.step_time(world_.machine().rank_test), *this, kDone);
}

bool HostRank::post_next() {
    const size_t receives = now_.receives.size();
    if (posted_ == receives + now_.sends.size()) return false;
    const size_t at = posted_++;
    after(at < receives ? world_.machine().mpi_receive : send(now_.sends[at - receives]));
    return true;
}

Time HostRank::send(const Message& message) {
    const Machine& m = world_.machine();
    if (message.bytes > m.mpi_eager) {
        tell(message.peer, Note::kReady, round_, kHeaderBytes, m.mpi_send);
        return m.mpi_send;
    }
    // Copied away, so the buffer is free.
    const Time cost = m.mpi_send + time_of(message.bytes, m.memory_core_rate);
    tell(message.peer, Note::kHere, round_, kHeaderBytes + message.bytes, cost);
    --pending_;
    return cost;
}

void HostRank::tell(uint32_t peer, Note note, uint32_t round, uint64_t bytes, Time delay) {
    const Job& job = world_.job();
    const uint32_t here = job.node_of(rank_), there = job.node_of(peer);
    HostRank& to = world_.rank(peer);
    const uint64_t tag = tag_of(note, rank_, round);
    if (here == there) {
        world_.wires().note(delay + world_.machine().mpi_shared, &to, tag);
    } else {
        world_.wires().send({here, Side::kHost}, {there, Side::kHost}, bytes, delay, &to, tag);
    }
}

bool HostRank::take_next() {
    while (!inbox_.empty()) {
        const uint64_t tag = inbox_.front();
        inbox_.pop_front();
        if (((tag >> 30) & kPeer) != round_) {
            early_.push_back(tag);
            after(world_.machine().mpi_take);
            return true;
        }
        const Time cost = take(tag);
        if (!copying_) after(cost);
        return true;
    }
    return false;
}

// Returns what it takes; where this rank's core copies it is busy until that is over.
Time HostRank::take(uint64_t tag) {
    const Machine& m = world_.machine();
    const auto peer = static_cast<uint32_t>(tag & kPeer);
    const auto round = static_cast<uint32_t>(tag >> 30 & kPeer);
    switch (Note(tag >> 60)) {
        case Note::kReady:
            return m.mpi_take + fetch(peer, bytes_from(peer), round);
        case Note::kHere:
            --pending_;
            world_.message_is_over();
            return m.mpi_take + time_of(bytes_from(peer), m.memory_core_rate);
        case Note::kRead:
        case Note::kCopied:
            --pending_;
            world_.message_is_over();
            tell(peer, Note::kReadOut, round, kHeaderBytes, m.mpi_take + m.mpi_send);
            return m.mpi_take + m.mpi_send;
        case Note::kReadOut:
            --pending_;
            return m.mpi_take;
    }
    return 0;
}

Time HostRank::fetch(uint32_t peer, uint64_t bytes, uint32_t round) {
    const Job& job = world_.job();
    const uint32_t here = job.node_of(rank_), there = job.node_of(peer);
    const Machine& m = world_.machine();
    if (here != there) {
        world_.wires().read({here, Side::kHost}, {there, Side::kHost}, {here, Side::kHost}, bytes,
                            m.mpi_take + m.mpi_read, this, tag_of(Note::kRead, peer, round));
        return m.mpi_read;
    }
    busy_ = copying_ = true;
    world_.wires().copy(here, bytes, m.mpi_take, this, tag_of(Note::kCopied, peer, round));
    return 0;
}

uint64_t HostRank::bytes_from(uint32_t peer) const {
    // In these algorithms all messages of a round are of one size.
    static_cast<void>(peer);
    return now_.receives.empty() ? 0 : now_.receives.front().bytes;
}

}  // namespace longshore::timed
