// A seeded random program: collectives of all families, blocking and not, on communicators that come and go,
// messages between, random datatypes and sizes, ranks that are late, every way to wait; every byte is
// checked. The plan is drawn from the seed alike on all ranks; what a rank does in between is its own.
//      stress [seed [operations [native | no-idup]]]
// native: only what the MPI's own collectives can do, for a run in which they carry the calls. no-idup:
// without MPI_Comm_idup, whose communicators Open MPI 4.1.4 cannot free over a network while calls on them
// are open. LONGSHORE_INTERNAL_TEST_PROGRESS=1 shows how far it is. LONGSHORE_INTERNAL_TEST_SECONDS=N: it
// ends after so long, and says every ten seconds how long an alltoall takes then.
// LONGSHORE_INTERNAL_TEST_FOLDER=FOLDER: the first rank's operations (uint64_t) are in FOLDER/progress, and
// it enters the last one when there is FOLDER/stop.
#include <fcntl.h>

#include <ctime>

#include "stress_call.h"

using namespace stress;

namespace {

constexpr size_t kCommsMax = 7;  // the last is the MPI's
constexpr size_t kOpenMax = 60;  // MPICH 4.0.2's MPI_Testall fails on more than 64 with statuses ignored

int rank, size;
bool native_only = false, no_idup = false;

// What a request stands for; shared by the two of a message.
struct Open {
    std::unique_ptr<Call> call;
    Side side;  // of a message
    bool receives = false;
    int source = 0, tag = 0, count = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<int> sum_of, sum;  // of a native reduction

    void check(const MPI_Status* status) {
        if (call) return call->check();
        if (!sum.empty()) CHECK(sum[0] == size * (size - 1) / 2);
        if (!side.is_right()) {
            fprintf(stderr, "stress: message %d is wrong at byte %td on rank %d\n", tag, side.first_wrong(),
                    rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (!receives || !status) return;
        int elements = -1;
        MPI_Get_count(status, side.type(), &elements);
        CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && elements == count);
    }
};

class Stress {
  public:
    Stress(uint64_t seed, uint64_t operations)
        : seed_(seed),
          operations_(operations),
          common_(mix(seed, 3, 0, 0)),
          own_(mix(seed, 4, static_cast<uint64_t>(rank), 0)) {
        comms_.push_back(std::make_shared<Comm>(MPI_COMM_WORLD, native_only));
        for (size_t i = 1; i < kCommsMax; ++i) comms_.push_back(make_comm(i));
        if (const char* seconds = getenv("LONGSHORE_INTERNAL_TEST_SECONDS")) {
            seconds_ = atof(seconds);
            MPI_Comm_dup(MPI_COMM_WORLD, &clock_);
            began_ = MPI_Wtime();
        }
        if (const char* folder = getenv("LONGSHORE_INTERNAL_TEST_FOLDER"); folder && rank == 0) {
            stop_ = std::string(folder) + "/stop";
            progress_ = open((std::string(folder) + "/progress").c_str(), O_WRONLY | O_CREAT, 0600);
            CHECK(progress_ >= 0);
        }
    }

    void run() {
        for (; step_ < operations_ && goes_on(); ++step_) {
            show();
            tell();
            switch (below(&common_, 16)) {
                case 0:
                case 1:
                    exchange();
                    break;
                case 2:
                    if (below(&common_, 4) == 0) reduce();
                    break;
                case 3:
                    if (below(&common_, 4) == 0) replace_comm();
                    break;
                default:
                    break;
            }
            collective();
            if (below(&own_, 256) == 0) usleep(static_cast<unsigned>(below(&own_, 2000)));
            if (below(&own_, 3) == 0) complete_some();
            while (open_.size() > kOpenMax) complete_some();
        }
        while (!open_.empty()) complete_some();
        for (size_t i = 1; i < comms_.size(); ++i) free_comm(i);
        if (clock_ != MPI_COMM_NULL) MPI_Comm_free(&clock_);
    }

  private:
    // The first rank's clock says. At such a moment nothing is open, and calls are timed.
    bool goes_on() {
        if (seconds_ == 0 || step_ % 256 != 0) return true;
        const double now = MPI_Wtime() - began_;
        int says[2] = {now < seconds_, now - probed_ >= 10};
        MPI_Bcast(says, 2, MPI_INT, 0, clock_);
        if (says[1]) {
            while (!open_.empty()) complete_some();
            const double us = time_of_alltoall() * 1e6;
            probed_ = now;
            if (rank == 0)
                printf("soak: %.0f s, %llu operations, %.1f us\n", now,
                       static_cast<unsigned long long>(step_), us);
            fflush(stdout);
        }
        if (!says[0] && rank == 0)
            printf("soak: ends after %llu operations\n", static_cast<unsigned long long>(step_));
        return says[0] != 0;
    }

    // The median of some.
    double time_of_alltoall() {
        constexpr int kBytes = 16 * 1024, kTimes = 100;
        std::vector<char> sent(static_cast<size_t>(kBytes * size)), received(sent.size());
        std::vector<double> times;
        for (int i = 0; i < kTimes; ++i) {
            MPI_Barrier(clock_);
            const double begin = MPI_Wtime();
            MPI_Alltoall(sent.data(), kBytes, MPI_BYTE, received.data(), kBytes, MPI_BYTE, clock_);
            times.push_back(MPI_Wtime() - begin);
        }
        std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
        return times[kTimes / 2];
    }

    uint64_t label(uint64_t what) const { return mix(seed_, step_, what, 7); }

    void collective() {
        const Plan plan = Plan::draw(label(0), &common_);
        const auto& comm = comms_[static_cast<size_t>(below(&common_, static_cast<int>(comms_.size())))];
        if (comm->handle == MPI_COMM_NULL) return;
        auto open = std::make_unique<Open>();
        open->call = std::make_unique<Call>(plan, comm, &own_);
        open->request = open->call->start();
        if (plan.blocking)
            open->call->check();
        else
            open_.push_back(std::move(open));
    }

    // Everybody sends to a neighbour near or far; types differ on the two sides.
    void exchange() {
        const auto unit = static_cast<Unit>(below(&common_, kUnits));
        const int shift = below(&common_, size), granule = 1 + below(&common_, 4);
        const int most = 1 << below(&common_, 14);
        const int to = (rank + shift) % size, from = (rank - shift + size) % size;
        const int tag = static_cast<int>(step_ % 30'000);
        for (const bool receives : {true, false}) {
            const int source = receives ? from : rank;
            const uint64_t key = mix(label(1), static_cast<uint64_t>(source), 0, 0);
            const int units = granule * static_cast<int>(key % static_cast<uint64_t>(most));
            const int in_element = below(&own_, 2) ? granule : 1;
            auto open = std::make_unique<Open>();
            open->receives = receives;
            open->source = from;
            open->tag = tag;
            open->count = units / in_element;
            open->side.make(Type::random(unit, in_element, &own_), {{0, open->count}}, false);
            if (receives) {
                open->side.expect(0, key);
                const int any = below(&own_, 4) == 0 ? MPI_ANY_SOURCE : from;
                MPI_Irecv(open->side.buffer(), open->count, open->side.type(), any, tag, MPI_COMM_WORLD,
                          &open->request);
            } else {
                open->side.put(0, key);
                MPI_Isend(open->side.buffer(), open->count, open->side.type(), to, tag, MPI_COMM_WORLD,
                          &open->request);
            }
            open_.push_back(std::move(open));
        }
    }

    // A nonblocking collective that is always the MPI's.
    void reduce() {
        auto open = std::make_unique<Open>();
        open->sum_of = {rank};
        open->sum = {-1};
        MPI_Iallreduce(open->sum_of.data(), open->sum.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       &open->request);
        open_.push_back(std::move(open));
    }

    void free_comm(size_t i) {
        if (comms_[i]->handle != MPI_COMM_NULL) MPI_Comm_free(&comms_[i]->handle);
    }

    // Calls on the one that goes may still be open.
    void replace_comm() {
        const auto i = static_cast<size_t>(1 + below(&common_, static_cast<int>(kCommsMax) - 1));
        free_comm(i);
        comms_[i] = make_comm(i);
    }

    // MPI_Comm_idup's is left to the MPI.
    std::shared_ptr<Comm> make_comm(size_t place) {
        const auto parents = static_cast<int>(std::min(comms_.size(), kCommsMax - 1));
        const auto parent = comms_[below(&common_, 2) ? static_cast<size_t>(below(&common_, parents)) : 0];
        const bool native = native_only || place == kCommsMax - 1;
        const int drawn = below(&common_, 1 << 20);
        int way = native && !native_only && !no_idup ? -1 : below(&common_, 8);
        if (parent->size == 2 && way >= 0 && way < 4 && drawn % 4 != 0)
            way = 5;  // of one rank there are enough
        MPI_Comm made = MPI_COMM_NULL;
        const int me = parent->rank;
        if (parent->handle != MPI_COMM_NULL) {
            switch (way) {
                case 0:
                    MPI_Comm_split(parent->handle, me % 2 == drawn % 2 ? 0 : 1, -me, &made);
                    break;
                case 1:
                    MPI_Comm_split(parent->handle, me == drawn % parent->size ? MPI_UNDEFINED : 1, me, &made);
                    break;
                case 2:
                    made = cartesian_row(parent->handle, parent->size, drawn);
                    break;
                case 3:
                    made = of_group(parent->handle, drawn);
                    break;
                case -1: {
                    MPI_Request request;
                    MPI_Comm_idup(parent->handle, &made, &request);
                    MPI_Wait(&request, MPI_STATUS_IGNORE);
                    break;
                }
                case 4:
                    MPI_Comm_split_type(parent->handle, MPI_COMM_TYPE_SHARED, drawn % 2 ? me : -me,
                                        MPI_INFO_NULL, &made);
                    break;
                default:
                    MPI_Comm_dup(parent->handle, &made);
            }
        }
        return std::make_shared<Comm>(made, native);
    }

    static MPI_Comm cartesian_row(MPI_Comm parent, int members, int drawn) {
        MPI_Comm cart, row;
        int dims[2] = {0, 0}, periods[2] = {drawn % 2, 0}, remain[2] = {drawn / 2 % 2, 1};
        MPI_Dims_create(members, 2, dims);
        MPI_Cart_create(parent, 2, dims, periods, 0, &cart);
        MPI_Cart_sub(cart, remain, &row);
        MPI_Comm_free(&cart);
        return row;
    }

    // Every member but those of a random set, in the opposite order; only they call.
    static MPI_Comm of_group(MPI_Comm parent, int drawn) {
        MPI_Group all, some;
        MPI_Comm_group(parent, &all);
        int members = 0, mine = 0;
        MPI_Group_size(all, &members);
        std::vector<int> ranks;
        for (int r = members - 1; r >= 0; --r)
            if (r == drawn % members || (drawn >> (r % 16)) % 2 == 0) ranks.push_back(r);
        MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
        MPI_Group_rank(some, &mine);
        MPI_Comm made = MPI_COMM_NULL;
        if (drawn % 3 == 0)
            MPI_Comm_create(parent, some, &made);
        else if (mine != MPI_UNDEFINED)
            MPI_Comm_create_group(parent, some, 17, &made);
        MPI_Group_free(&some);
        MPI_Group_free(&all);
        return made;
    }

    // Waits or tests, in a way drawn by this rank alone, for some of what is open, in any order, null
    // requests among them.
    void complete_some() {
        if (open_.empty()) return;
        std::shuffle(open_.begin(), open_.end(), own_);
        const int n = 1 + below(&own_, static_cast<int>(open_.size()));
        const auto count = static_cast<size_t>(n);
        std::vector<MPI_Request> requests(count + 1, MPI_REQUEST_NULL);
        for (size_t i = 0; i < count; ++i) requests[i] = open_[i]->request;
        const bool ignore = below(&own_, 2) == 0;
        std::vector<MPI_Status> statuses(count + 1);
        std::vector<int> indices(count + 1, -1);
        int done =
            complete(n + 1, requests.data(), ignore ? MPI_STATUSES_IGNORE : statuses.data(), indices.data());
        if (done == MPI_UNDEFINED) done = 0;
        // Which status is whose: by index where the call gives one, else in place.
        std::vector<const MPI_Status*> status(count, nullptr);
        for (int i = 0; i < done && !ignore; ++i) {
            const int at = indices[static_cast<size_t>(i)];
            if (at >= 0 && at < n) status[static_cast<size_t>(at)] = &statuses[static_cast<size_t>(i)];
        }
        for (size_t i = count; i-- > 0;) {
            if (requests[i] != MPI_REQUEST_NULL) continue;
            open_[i]->check(status[i]);
            open_[i]->side.free_type();
            open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }

    // How many have a status; `indices`: whose.
    int complete(int n, MPI_Request* requests, MPI_Status* statuses, int* indices) {
        int count = 0, flag = 1;
        MPI_Status* const one = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses;
        const auto all_in_place = [&] {
            for (int i = 0; i < n; ++i) indices[i] = i;
            return n;
        };
        indices[0] = below(&own_, n);
        switch (below(&own_, 9)) {
            case 0:
                CHECK(MPI_Wait(&requests[indices[0]], one) == MPI_SUCCESS);
                return 1;
            case 1:
                CHECK(MPI_Waitany(n, requests, indices, one) == MPI_SUCCESS);
                return 1;
            case 2:
                CHECK(MPI_Waitsome(n, requests, &count, indices, statuses) == MPI_SUCCESS);
                return count;
            case 3:
                CHECK(MPI_Waitall(n, requests, statuses) == MPI_SUCCESS);
                return all_in_place();
            case 4:
                CHECK(MPI_Test(&requests[indices[0]], &flag, one) == MPI_SUCCESS);
                return flag;
            case 5:
                CHECK(MPI_Testany(n, requests, indices, &flag, one) == MPI_SUCCESS);
                return flag;
            case 6:
                CHECK(MPI_Testsome(n, requests, &count, indices, statuses) == MPI_SUCCESS);
                return count;
            case 7:
                CHECK(MPI_Testall(n, requests, &flag, statuses) == MPI_SUCCESS);
                return flag ? all_in_place() : 0;
            default: {
                const int at = indices[0];
                CHECK(MPI_Request_get_status(requests[at], &flag, one) == MPI_SUCCESS);
                if (flag) CHECK(MPI_Wait(&requests[at], one) == MPI_SUCCESS);
                return flag;
            }
        }
    }

    // The test that looks may be late: it is waited for.
    void tell() {
        if (progress_ < 0) return;
        CHECK(pwrite(progress_, &step_, sizeof step_, 0) == sizeof step_);
        while (step_ + 1 == operations_ && access(stop_.c_str(), F_OK) != 0) usleep(1000);
    }

    void show() {
        static const bool wanted = getenv("LONGSHORE_INTERNAL_TEST_PROGRESS") != nullptr;
        if (!wanted || rank != 0 || step_ % 1000 != 0) return;
        static const time_t begin = time(nullptr);
        static time_t shown = 0;
        if (time(nullptr) < shown + 5) return;
        shown = time(nullptr);
        printf("stress: %llu of %llu operations, %ld s\n", static_cast<unsigned long long>(step_),
               static_cast<unsigned long long>(operations_), static_cast<long>(shown - begin));
        fflush(stdout);
    }

    const uint64_t seed_, operations_;
    uint64_t step_ = 0;
    double seconds_ = 0, began_ = 0, probed_ = 0;  // 0: by operations alone
    int progress_ = -1;                            // a file; -1: nobody looks
    std::string stop_;
    MPI_Comm clock_ = MPI_COMM_NULL;
    Random common_, own_;
    std::vector<std::shared_ptr<Comm>> comms_;
    std::vector<std::unique_ptr<Open>> open_;
};

}  // namespace

PROGRAM(stress) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const uint64_t seed = argc > 1 ? strtoull(argv[1], nullptr, 10) : 1;
    const uint64_t operations = argc > 2 ? strtoull(argv[2], nullptr, 10) : 100;
    native_only = argc > 3 && strcmp(argv[3], "native") == 0;
    no_idup = argc > 3 && strcmp(argv[3], "no-idup") == 0;
    if (rank == 0) {
        printf("stress: seed %llu, %llu operations, %d ranks%s\n", static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(operations), size, native_only ? ", native" : "");
        fflush(stdout);
    }
    Stress(seed, operations).run();
    return finish("stress");
}
