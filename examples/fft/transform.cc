#include "transform.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

namespace {

// Adds the time of a call to `seconds`.
template <typename Call>
void timed(double& seconds, Call call) {
    const double start = MPI_Wtime();
    call();
    seconds += MPI_Wtime() - start;
}

// The same of an MPI function; `trace`, where there is one, is told.
template <typename Call>
void timed(double& seconds, Trace* trace, const char* name, Call call) {
    const std::int64_t begin_ns = trace ? Trace::now_ns() : 0;
    timed(seconds, call);
    if (trace) trace->call(name, begin_ns);
}

}  // namespace

Times& Times::operator+=(const Times& more) {
    total += more.total;
    post += more.post;
    wait += more.wait;
    other += more.other;
    return *this;
}

template <typename Real>
typename Transform<Real>::Field Transform<Real>::allocate(std::size_t points) {
    return Field(
        static_cast<Complex*>(Fftw<Real>::allocate(sizeof(Complex) * std::max<std::size_t>(points, 1))));
}

template <typename Real>
int Transform<Real>::to_bytes(std::size_t points) {
    const std::size_t bytes = points * sizeof(Complex);
    if (bytes > INT_MAX) throw std::runtime_error("a rank's part passes 2 GiB: use more ranks");
    return int(bytes);
}

template <typename Real>
Transform<Real>::Transform(MPI_Comm world, Size3 size, std::array<int, 2> grid, int variables, int open_max,
                           int work_factor)
    : size_(size), grid_(grid), open_max_(open_max), work_factor_(work_factor) {
    const std::array<int, 2> periods{};
    MPI_Cart_create(world, 2, grid_.data(), periods.data(), 0, &cartesian_);
    int rank = 0;
    MPI_Comm_rank(cartesian_, &rank);
    MPI_Cart_coords(cartesian_, rank, 2, position_.data());
    for (int along = 0; along < 2; ++along) {
        const std::array<int, 2> keep = {along == 0, along == 1};
        MPI_Cart_sub(cartesian_, keep.data(), &lines_[along]);
    }

    std::size_t points = 0;
    for (int axis = 0; axis < 3; ++axis) {
        pencils_[axis] = make_pencil(size_, grid_, position_, axis);
        points = std::max(points, pencils_[axis].points());
    }
    to_bytes(points);
    exchanges_[0] = {make_exchange(lines_[0], 0, 0, 1), make_exchange(lines_[1], 1, 1, 2)};
    exchanges_[1] = {make_exchange(lines_[1], 1, 2, 1), make_exchange(lines_[0], 0, 1, 0)};

    variables_.resize(variables);
    for (Variable& variable : variables_) {
        variable.data = allocate(points);
        variable.send = allocate(points);
        variable.receive = allocate(points);
        // Exchanges without computing send whatever is there: let it be numbers.
        for (Field* field : {&variable.data, &variable.send, &variable.receive})
            std::fill_n(field->get(), points, Complex{});
    }
    requests_.assign(variables, MPI_REQUEST_NULL);

    if (work_factor_ > 1) scratch_ = allocate(points);
    for (int axis = 0; axis < 3; ++axis) {
        for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
            plans_[int(direction)][axis] = make_plan(axis, direction, variables_[0].data.get());
            if (scratch_) scratch_plans_[int(direction)][axis] = make_plan(axis, direction, scratch_.get());
        }
    }
}

// FFTW_ESTIMATE, so that two runs use the same algorithm and their results agree to the last bit.
template <typename Real>
typename Transform<Real>::Plan Transform<Real>::make_plan(int pencil, Direction direction,
                                                          Complex* to) const {
    const int lines = pencils_[pencil].lines(), length = size_[pencil];
    if (lines == 0) return nullptr;
    const auto raw = [](Complex* p) { return reinterpret_cast<typename Fftw<Real>::Complex*>(p); };
    return Fftw<Real>::plan_many(
        1, &length, lines, raw(variables_[0].data.get()), nullptr, 1, length, raw(to), nullptr, 1, length,
        direction == Direction::kForward ? FFTW_FORWARD : FFTW_BACKWARD, FFTW_ESTIMATE);
}

template <typename Real>
Transform<Real>::~Transform() {
    for (auto* all : {&plans_, &scratch_plans_})
        for (auto& plans : *all)
            for (Plan plan : plans)
                if (plan) Fftw<Real>::destroy(plan);
    for (MPI_Comm& line : lines_) MPI_Comm_free(&line);
    MPI_Comm_free(&cartesian_);
}

template <typename Real>
typename Transform<Real>::Exchange Transform<Real>::make_exchange(MPI_Comm comm, int along, int from,
                                                                  int to) const {
    Exchange exchange;
    exchange.comm = comm;
    exchange.from = from;
    exchange.to = to;
    std::size_t sent = 0, received = 0;
    for (int peer = 0; peer < grid_[along]; ++peer) {
        auto where = position_;
        where[along] = peer;
        const Pencil peer_from = make_pencil(size_, grid_, where, from);
        const Pencil peer_to = make_pencil(size_, grid_, where, to);
        exchange.outgoing.push_back(intersect(pencils_[from], peer_to));
        exchange.incoming.push_back(intersect(peer_from, pencils_[to]));
        exchange.send_displacements.push_back(to_bytes(sent));
        exchange.receive_displacements.push_back(to_bytes(received));
        exchange.send_counts.push_back(to_bytes(points_in(exchange.outgoing.back())));
        exchange.receive_counts.push_back(to_bytes(points_in(exchange.incoming.back())));
        sent += points_in(exchange.outgoing.back());
        received += points_in(exchange.incoming.back());
    }
    return exchange;
}

template <typename Real>
std::uint64_t Transform<Real>::bytes_to_other_nodes() const {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(cartesian_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Group here = MPI_GROUP_NULL;
    MPI_Comm_group(node, &here);
    std::uint64_t bytes = 0;
    for (const auto& stages : exchanges_) {
        for (const Exchange& exchange : stages) {
            MPI_Group line = MPI_GROUP_NULL;
            MPI_Comm_group(exchange.comm, &line);
            for (int peer = 0; peer < int(exchange.send_counts.size()); ++peer) {
                int there = MPI_UNDEFINED;
                MPI_Group_translate_ranks(line, 1, &peer, here, &there);
                if (there == MPI_UNDEFINED) bytes += std::uint64_t(exchange.send_counts[peer]);
            }
            MPI_Group_free(&line);
        }
    }
    MPI_Group_free(&here);
    MPI_Comm_free(&node);
    return bytes * variables_.size();
}

template <typename Real>
void Transform<Real>::transform_lines(Variable& variable, int pencil, Direction direction) const {
    const Plan plan = plans_[int(direction)][pencil], scratch_plan = scratch_plans_[int(direction)][pencil];
    if (!plan) return;
    auto* data = reinterpret_cast<typename Fftw<Real>::Complex*>(variable.data.get());
    auto* scratch = reinterpret_cast<typename Fftw<Real>::Complex*>(scratch_.get());
    for (int i = 1; i < work_factor_; ++i) Fftw<Real>::execute(scratch_plan, data, scratch);
    Fftw<Real>::execute(plan, data, data);
}

template <typename Real>
void Transform<Real>::pack_blocks(Variable& variable, const Exchange& exchange) const {
    Complex* block = variable.send.get();
    for (const auto& part : exchange.outgoing) {
        pack(pencils_[exchange.from], variable.data.get(), part, pencils_[exchange.to].axis, block);
        block += points_in(part);
    }
}

template <typename Real>
void Transform<Real>::unpack_blocks(Variable& variable, const Exchange& exchange) const {
    const Complex* block = variable.receive.get();
    for (const auto& part : exchange.incoming) {
        unpack(pencils_[exchange.to], variable.data.get(), part, block);
        block += points_in(part);
    }
}

template <typename Real>
void Transform<Real>::scale(Variable& variable) const {
    const Real factor = Real(1.0 / (double(size_[0]) * size_[1] * size_[2]));
    std::for_each_n(variable.data.get(), physical().points(), [&](Complex& value) { value *= factor; });
}

template <typename Real>
Times Transform<Real>::run(Direction direction, Way way, Work work) {
    Times times;
    timed(times.total, [&] {
        if (way == Way::kBlocking || work == Work::kComputeOnly)
            run_one_by_one(direction, work, times);
        else
            run_pipeline(direction, work == Work::kFull, times);
    });
    return times;
}

template <typename Real>
void Transform<Real>::run_one_by_one(Direction direction, Work work, Times& times) {
    const bool compute = work != Work::kExchangesOnly;
    for (Variable& variable : variables_) {
        for (const Exchange& exchange : exchanges_[int(direction)]) {
            if (compute) {
                transform_lines(variable, exchange.from, direction);
                pack_blocks(variable, exchange);
            }
            if (exchange.alone())
                std::swap(variable.send, variable.receive);
            else if (work != Work::kComputeOnly)
                timed(times.other, trace_, "MPI_Alltoallv", [&] {
                    MPI_Alltoallv(variable.send.get(), exchange.send_counts.data(),
                                  exchange.send_displacements.data(), MPI_BYTE, variable.receive.get(),
                                  exchange.receive_counts.data(), exchange.receive_displacements.data(),
                                  MPI_BYTE, exchange.comm);
                });
            if (compute) unpack_blocks(variable, exchange);
        }
        if (!compute) continue;
        transform_lines(variable, exchanges_[int(direction)][1].to, direction);
        if (direction == Direction::kBackward) scale(variable);
    }
}

// MPI wants the collectives of one communicator started in the same order on all its ranks, while the
// exchanges may complete in a different order on each: so a variable is posted only when its predecessors
// have been.
template <typename Real>
void Transform<Real>::post_in_order(int stage, const Exchange& exchange, Times& times) {
    int& next = next_to_post_[stage];
    while (next < variables() && variables_[next].packed && variables_[next].stage == stage) {
        Variable& variable = variables_[next];
        if (exchange.alone()) {
            std::swap(variable.send, variable.receive);
            variable.packed = false;
            arrived_[variable.stage++].insert(next++);
            continue;
        }
        timed(times.post, trace_, "MPI_Ialltoallv", [&] {
            MPI_Ialltoallv(variable.send.get(), exchange.send_counts.data(),
                           exchange.send_displacements.data(), MPI_BYTE, variable.receive.get(),
                           exchange.receive_counts.data(), exchange.receive_displacements.data(), MPI_BYTE,
                           exchange.comm, &requests_[next]);
        });
        variable.packed = false;
        ++open_;
        ++next;
    }
}

template <typename Real>
void Transform<Real>::arrived(int index) {
    --open_;
    arrived_[variables_[index].stage++].insert(index);
}

template <typename Real>
void Transform<Real>::take_completed(Times& times) {
    while (open_ > 0) {
        int index = MPI_UNDEFINED, completed = 0;
        timed(times.other, trace_, "MPI_Testany",
              [&] { MPI_Testany(variables(), requests_.data(), &index, &completed, MPI_STATUS_IGNORE); });
        if (!completed || index == MPI_UNDEFINED) return;
        arrived(index);
    }
}

template <typename Real>
void Transform<Real>::wait_for_one(Times& times) {
    int index = MPI_UNDEFINED;
    timed(times.wait, trace_, "MPI_Waitany",
          [&] { MPI_Waitany(variables(), requests_.data(), &index, MPI_STATUS_IGNORE); });
    if (index == MPI_UNDEFINED) throw std::logic_error("nothing open, yet variables are unfinished");
    arrived(index);
}

// What comes first is what gives the network something to do soonest: a variable whose first exchange has
// completed, whose second can follow; then a variable that has not begun; only then one that has no exchange
// before it.
//
// No rank waits for ever. One that waits in MPI_Waitany has done all that it can do with the variables that
// it has begun, and some exchange is open there. Of all that are open anywhere take one of the lowest
// variable, and of that the first: a rank which has not posted it yet has begun no such variable, or has
// posted neither its first nor, in its turn, a predecessor's second exchange. It waits for a lower variable
// then, or for that variable's first exchange: there is none, so it does not wait.
template <typename Real>
void Transform<Real>::run_pipeline(Direction direction, bool compute, Times& times) {
    const auto& exchanges = exchanges_[int(direction)];
    for (Variable& variable : variables_) {
        variable.stage = 0;
        variable.packed = false;
    }
    next_to_post_ = {0, 0};

    const auto pack_and_post = [&](Variable& variable) {
        const Exchange& exchange = exchanges[variable.stage];
        if (compute) {
            transform_lines(variable, exchange.from, direction);
            pack_blocks(variable, exchange);
        }
        variable.packed = true;
        post_in_order(variable.stage, exchange, times);
    };
    const auto take_first_of = [&](std::set<int>& indices) -> Variable& {
        return variables_[indices.extract(indices.begin()).value()];
    };

    int started = 0, finished = 0;
    while (finished < variables()) {
        take_completed(times);
        if (!arrived_[0].empty()) {
            Variable& variable = take_first_of(arrived_[0]);
            if (compute) unpack_blocks(variable, exchanges[0]);
            pack_and_post(variable);
        } else if (started < variables() && open_ < open_max_) {
            pack_and_post(variables_[started++]);
        } else if (!arrived_[1].empty()) {
            Variable& variable = take_first_of(arrived_[1]);
            if (compute) {
                unpack_blocks(variable, exchanges[1]);
                transform_lines(variable, exchanges[1].to, direction);
                if (direction == Direction::kBackward) scale(variable);
            }
            ++finished;
        } else {
            wait_for_one(times);
        }
    }
}

template class Transform<float>;
template class Transform<double>;
