// One collective call of stress.cc, drawn from the seed alike on all ranks but for what a rank may choose
// alone: datatypes, where blocks lie, whether a type is freed while the call is open.
#pragma once

#include <string>

#include "kinds.h"
#include "stress_data.h"

namespace stress {

struct Comm {
    MPI_Comm handle = MPI_COMM_NULL;
    int rank = 0, size = 0;
    bool native = false;     // the MPI serves it, whose own flaws are none of ours: only simple types
    std::vector<int> world;  // ranks in MPI_COMM_WORLD

    // Takes the handle.
    Comm(MPI_Comm of, bool is_native) : handle(of), native(is_native) {
        if (handle == MPI_COMM_NULL) return;
        MPI_Comm_rank(handle, &rank);
        MPI_Comm_size(handle, &size);
        MPI_Group mine, all;
        MPI_Comm_group(handle, &mine);
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        std::vector<int> ranks(static_cast<size_t>(size));
        for (int r = 0; r < size; ++r) ranks[static_cast<size_t>(r)] = r;
        world.resize(ranks.size());
        MPI_Group_translate_ranks(mine, size, ranks.data(), all, world.data());
        MPI_Group_free(&mine);
        MPI_Group_free(&all);
    }
};

// Drawn by all ranks alike.
struct Plan {
    Kind kind{};
    bool blocking = false, in_place = false;
    Unit unit{};
    int granule = 1;     // a block has a multiple of this many units
    int multiples = 0;   // at most
    uint64_t label = 0;  // of seed and operation: what contents and sizes come from
    uint64_t root = 0;   // modulo the communicator's size

    static Plan draw(uint64_t label, Random* common) {
        Plan plan;
        plan.label = label;
        const auto kind = static_cast<int>(below(common, kKinds - 1));  // all but alltoallw
        plan.kind = static_cast<Kind>(kind < kAlltoallw ? kind : kind + 1);
        plan.blocking = below(common, 3) == 0;
        plan.in_place = below(common, 4) == 0;
        plan.unit = static_cast<Unit>(below(common, kUnits));
        plan.root = (*common)();
        // Of one block: mostly small, now and then up to about 1 MiB.
        constexpr int kBytes[] = {0, 8, 64, 512, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
        constexpr int kShare[] = {40, 200, 400, 600, 760, 860, 960, 995, 1000};  // of 1000, and those before
        const int drawn = below(common, 1000);
        const int size = static_cast<int>(std::upper_bound(kShare, kShare + 9, drawn) - kShare);
        constexpr int kGranules[] = {1, 2, 4, 6, 12};
        plan.granule = kGranules[below(common, size > 5 ? 3 : 5)];
        constexpr int kUnitBytes[kUnits] = {1, 4, 8, 15};
        plan.multiples = kBytes[size] / kUnitBytes[static_cast<int>(plan.unit)] / plan.granule;
        return plan;
    }
};

class Call {
  public:
    Call(const Plan& plan, std::shared_ptr<Comm> comm, Random* own)
        : plan_(plan), comm_(std::move(comm)), own_(own) {
        root_ = static_cast<int>(plan_.root % static_cast<uint64_t>(comm_->size));
        is_root_ = root_ == comm_->rank;
        if (comm_->native) {
            plan_.in_place = false;
            if (plan_.unit == Unit::kMixed) plan_.unit = Unit::kDouble;
        }
        if (scatters(plan_.kind)) {
            plan_scatter();
        } else if (to_each(plan_.kind)) {
            plan_exchange();
        } else if (plan_.kind != kBcast) {
            plan_gather(gathers(plan_.kind));
        } else {
            make(&recv_, 1, [&](int) { return units(root_, kAll); });
            if (is_root_) recv_.put(0, key(root_, kAll));
            recv_.expect(0, key(root_, kAll));
        }
    }

    // MPI_REQUEST_NULL for a blocking one.
    MPI_Request start() {
        MPI_Request request = MPI_REQUEST_NULL;
        const int rc = plan_.blocking ? call_blocking() : call(&request);
        CHECK(rc == MPI_SUCCESS);
        if (below(own_, 2)) free_types();
        return request;
    }

    // After it is over.
    void check() {
        free_types();
        if (!send_.is_right()) fail("send buffer", send_);
        if (!recv_.is_right()) fail("receive buffer", recv_);
    }

  private:
    static constexpr int kAll = -1;  // as destination: the same for everybody

    bool by_vector() const {
        return plan_.kind == kAlltoallv || plan_.kind == kAllgatherv || plan_.kind == kGatherv ||
               plan_.kind == kScatterv;
    }

    // What comm rank `from` gives `to`.
    uint64_t key(int from, int to) const {
        const auto world = [&](int r) { return r < 0 ? r : comm_->world[static_cast<size_t>(r)]; };
        return mix(plan_.label, 1, static_cast<uint64_t>(world(from)), static_cast<uint64_t>(world(to)));
    }
    int units(int from, int to) const {
        const bool mutual = plan_.in_place && to >= 0;  // in place one gets as much as one gives
        uint64_t seed = mix(plan_.label, 2, 0, 0);
        if (by_vector())
            seed = key(mutual ? std::min(from, to) : from, mutual ? std::max(from, to) : to) ^ plan_.label;
        return static_cast<int>(seed % static_cast<uint64_t>(plan_.multiples + 1)) * plan_.granule;
    }

    void plan_exchange() {
        const int me = comm_->rank, n = comm_->size;
        if (!plan_.in_place) {
            make(&send_, n, [&](int r) { return units(me, r); });
            for (int r = 0; r < n; ++r) send_.put(static_cast<size_t>(r), key(me, r));
        }
        make(&recv_, n, [&](int r) { return units(r, me); });
        for (int r = 0; r < n; ++r) {
            if (plan_.in_place) recv_.put(static_cast<size_t>(r), key(me, r));
            recv_.expect(static_cast<size_t>(r), key(r, me));
        }
    }

    void plan_gather(bool to_root) {
        const int me = comm_->rank, n = comm_->size;
        const bool takes = !to_root || is_root_;
        gives_in_place_ = plan_.in_place && takes;
        if (!gives_in_place_) {
            make(&send_, 1, [&](int) { return units(me, kAll); });
            send_.put(0, key(me, kAll));
        }
        if (!takes) return;
        make(&recv_, n, [&](int r) { return units(r, kAll); });
        if (gives_in_place_) recv_.put(static_cast<size_t>(me), key(me, kAll));
        for (int r = 0; r < n; ++r) recv_.expect(static_cast<size_t>(r), key(r, kAll));
    }

    void plan_scatter() {
        const int me = comm_->rank, n = comm_->size;
        takes_in_place_ = plan_.in_place && is_root_;
        if (is_root_) {
            make(&send_, n, [&](int r) { return units(root_, r); });
            for (int r = 0; r < n; ++r) send_.put(static_cast<size_t>(r), key(root_, r));
        }
        if (takes_in_place_) return;
        make(&recv_, 1, [&](int) { return units(root_, me); });
        recv_.expect(0, key(root_, me));
    }

    template <class Units>
    void make(Side* side, int blocks, Units units_of) {
        std::vector<int> divisors;
        for (int d = 1; d <= plan_.granule; ++d)
            if (plan_.granule % d == 0) divisors.push_back(d);
        const bool simple = comm_->native || below(own_, 3) == 0;
        const int in_element =
            simple ? 1 : divisors[static_cast<size_t>(below(own_, static_cast<int>(divisors.size())))];
        const Type type = simple ? Type::plain(plan_.unit) : Type::random(plan_.unit, in_element, own_);
        std::vector<Side::Block> list(static_cast<size_t>(blocks));
        std::vector<size_t> order(list.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        if (by_vector()) std::shuffle(order.begin(), order.end(), *own_);
        int place = by_vector() ? -below(own_, 20) : 0;
        for (size_t i : order) {
            list[i] = {place, units_of(static_cast<int>(i)) / in_element};
            place += list[i].count + (by_vector() ? below(own_, 3) : 0);
        }
        if (blocks == 1) list[0].place = 0;
        side->make(type, std::move(list), below(own_, 16) == 0 && !comm_->native);
        made_ |= side == &send_ ? 1 : 2;
    }

    void free_types() {
        send_.free_type();
        recv_.free_type();
    }

    // The arguments as MPI has them. A side that is not there is not looked at by MPI.
    struct Arguments {
        const void* send;
        void* recv;
        int send_count, recv_count;
        MPI_Datatype send_type, recv_type;
        std::vector<int> send_counts, send_places, recv_counts, recv_places;
    };
    Arguments arguments() {
        Arguments a{};
        const bool in_place =
            gives_in_place_ || (plan_.in_place && (made_ & 1) == 0 && plan_.kind <= kAlltoallv);
        a.send = in_place ? MPI_IN_PLACE : (made_ & 1) ? send_.buffer() : nullptr;
        a.recv = takes_in_place_ ? MPI_IN_PLACE : (made_ & 2) ? recv_.buffer() : nullptr;
        a.send_type = (made_ & 1) ? send_.type() : MPI_BYTE;
        a.recv_type = (made_ & 2) ? recv_.type() : MPI_BYTE;
        a.send_count = (made_ & 1) ? send_.count(0) : 0;
        a.recv_count = (made_ & 2) ? recv_.count(0) : 0;
        a.send_counts = send_.counts();
        a.send_places = send_.places();
        a.recv_counts = recv_.counts();
        a.recv_places = recv_.places();
        return a;
    }

    int call(MPI_Request* q) {
        const Arguments a = arguments();
        const int *sc = a.send_counts.data(), *sp = a.send_places.data();
        const int *rc = a.recv_counts.data(), *rp = a.recv_places.data();
        const MPI_Datatype st = a.send_type, rt = a.recv_type;
        MPI_Comm c = comm_->handle;
        switch (plan_.kind) {
            case kAlltoall:
                return MPI_Ialltoall(a.send, a.send_count, st, a.recv, a.recv_count, rt, c, q);
            case kAlltoallv:
                return MPI_Ialltoallv(a.send, sc, sp, st, a.recv, rc, rp, rt, c, q);
            case kAllgather:
                return MPI_Iallgather(a.send, a.send_count, st, a.recv, a.recv_count, rt, c, q);
            case kAllgatherv:
                return MPI_Iallgatherv(a.send, a.send_count, st, a.recv, rc, rp, rt, c, q);
            case kGather:
                return MPI_Igather(a.send, a.send_count, st, a.recv, a.recv_count, rt, root_, c, q);
            case kGatherv:
                return MPI_Igatherv(a.send, a.send_count, st, a.recv, rc, rp, rt, root_, c, q);
            case kScatter:
                return MPI_Iscatter(a.send, a.send_count, st, a.recv, a.recv_count, rt, root_, c, q);
            case kScatterv:
                return MPI_Iscatterv(a.send, sc, sp, st, a.recv, a.recv_count, rt, root_, c, q);
            default:
                return MPI_Ibcast(a.recv, a.recv_count, rt, root_, c, q);
        }
    }

    int call_blocking() {
        const Arguments a = arguments();
        const int *sc = a.send_counts.data(), *sp = a.send_places.data();
        const int *rc = a.recv_counts.data(), *rp = a.recv_places.data();
        const MPI_Datatype st = a.send_type, rt = a.recv_type;
        MPI_Comm c = comm_->handle;
        switch (plan_.kind) {
            case kAlltoall:
                return MPI_Alltoall(a.send, a.send_count, st, a.recv, a.recv_count, rt, c);
            case kAlltoallv:
                return MPI_Alltoallv(a.send, sc, sp, st, a.recv, rc, rp, rt, c);
            case kAllgather:
                return MPI_Allgather(a.send, a.send_count, st, a.recv, a.recv_count, rt, c);
            case kAllgatherv:
                return MPI_Allgatherv(a.send, a.send_count, st, a.recv, rc, rp, rt, c);
            case kGather:
                return MPI_Gather(a.send, a.send_count, st, a.recv, a.recv_count, rt, root_, c);
            case kGatherv:
                return MPI_Gatherv(a.send, a.send_count, st, a.recv, rc, rp, rt, root_, c);
            case kScatter:
                return MPI_Scatter(a.send, a.send_count, st, a.recv, a.recv_count, rt, root_, c);
            case kScatterv:
                return MPI_Scatterv(a.send, sc, sp, st, a.recv, a.recv_count, rt, root_, c);
            default:
                return MPI_Bcast(a.recv, a.recv_count, rt, root_, c);
        }
    }

    [[noreturn]] void fail(const char* what, const Side& side) const {
        fprintf(
            stderr,
            "stress: %s of kind %d%s%s%s, label %llx, root %d of %d, is wrong at byte %td of its buffer on "
            "rank %d of the communicator\n",
            what, plan_.kind, plan_.blocking ? ", blocking" : "", plan_.in_place ? ", in place" : "",
            comm_->native ? ", left to MPI" : "", static_cast<unsigned long long>(plan_.label), root_,
            comm_->size, side.first_wrong(), comm_->rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }

    Plan plan_;
    std::shared_ptr<Comm> comm_;
    Random* own_;
    int root_ = 0;
    unsigned made_ = 0;  // 1: the send side, 2: the receive side
    bool is_root_ = false, gives_in_place_ = false, takes_in_place_ = false;
    Side send_, recv_;
};

}  // namespace stress
