#include "transform.h"

#include <algorithm>
#include <climits>
#include <stdexcept>

namespace {

Field allocate(std::size_t points) {
    return Field(static_cast<Complex*>(fftw_malloc(sizeof(Complex) * std::max<std::size_t>(points, 1))));
}

fftw_complex* raw(Complex* p) {
    return reinterpret_cast<fftw_complex*>(p);
}

int to_bytes(std::size_t points) {
    const std::size_t bytes = points * sizeof(Complex);
    if (bytes > INT_MAX) throw std::runtime_error("a rank's part passes 2 GiB: use more ranks");
    return int(bytes);
}

}  // namespace

Transform::Transform(MPI_Comm world, Size3 size, std::array<int, 2> grid, int variables, int open_max)
    : size_(size), grid_(grid), open_max_(open_max) {
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

    // FFTW_ESTIMATE, so that two runs use the same algorithm and their results agree to the last bit.
    for (int axis = 0; axis < 3; ++axis) {
        const int lines = pencils_[axis].lines();
        if (lines == 0) continue;
        fftw_complex* data = raw(variables_[0].data.get());
        for (int direction = 0; direction < 2; ++direction) {
            plans_[direction][axis] =
                fftw_plan_many_dft(1, &size_[axis], lines, data, nullptr, 1, size_[axis], data, nullptr, 1,
                                   size_[axis], direction == 0 ? FFTW_FORWARD : FFTW_BACKWARD, FFTW_ESTIMATE);
        }
    }
}

Transform::~Transform() {
    for (auto& plans : plans_)
        for (fftw_plan plan : plans)
            if (plan) fftw_destroy_plan(plan);
    for (MPI_Comm& line : lines_) MPI_Comm_free(&line);
    MPI_Comm_free(&cartesian_);
}

Transform::Exchange Transform::make_exchange(MPI_Comm comm, int along, int from, int to) const {
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

void Transform::transform_lines(Variable& variable, int pencil, Direction direction) const {
    const fftw_plan plan = plans_[direction == Direction::kForward ? 0 : 1][pencil];
    if (plan) fftw_execute_dft(plan, raw(variable.data.get()), raw(variable.data.get()));
}

void Transform::pack_blocks(Variable& variable, const Exchange& exchange) const {
    Complex* block = variable.send.get();
    for (const auto& part : exchange.outgoing) {
        pack(pencils_[exchange.from], variable.data.get(), part, pencils_[exchange.to].axis, block);
        block += points_in(part);
    }
}

void Transform::unpack_blocks(Variable& variable, const Exchange& exchange) const {
    const Complex* block = variable.receive.get();
    for (const auto& part : exchange.incoming) {
        unpack(pencils_[exchange.to], variable.data.get(), part, block);
        block += points_in(part);
    }
}

// MPI wants the collectives of one communicator started in the same order on all its ranks, while MPI_Waitany
// may finish the variables in a different order on each: so a variable is posted only when its predecessors
// have been.
void Transform::post_in_order(int stage, const Exchange& exchange, Times& times) {
    int& next = next_to_post_[stage];
    while (next < variables() && variables_[next].packed && variables_[next].stage == stage) {
        Variable& variable = variables_[next];
        const double start = MPI_Wtime();
        MPI_Ialltoallv(variable.send.get(), exchange.send_counts.data(), exchange.send_displacements.data(),
                       MPI_BYTE, variable.receive.get(), exchange.receive_counts.data(),
                       exchange.receive_displacements.data(), MPI_BYTE, exchange.comm, &requests_[next]);
        times.post += MPI_Wtime() - start;
        variable.packed = false;
        ++open_;
        ++next;
    }
}

Times Transform::run(Direction direction, Work work) {
    const auto& exchanges = exchanges_[direction == Direction::kForward ? 0 : 1];
    const bool compute = work == Work::kFull;
    Times times;
    const double start = MPI_Wtime();
    for (Variable& variable : variables_) {
        variable.stage = 0;
        variable.packed = false;
    }
    next_to_post_ = {0, 0};

    int started = 0, finished = 0;
    while (finished < variables()) {
        if (started < variables() && open_ < open_max_) {
            Variable& variable = variables_[started++];
            if (compute) {
                transform_lines(variable, exchanges[0].from, direction);
                pack_blocks(variable, exchanges[0]);
            }
            variable.packed = true;
            post_in_order(0, exchanges[0], times);
            continue;
        }

        int index = MPI_UNDEFINED;
        const double wait_start = MPI_Wtime();
        MPI_Waitany(variables(), requests_.data(), &index, MPI_STATUS_IGNORE);
        times.wait += MPI_Wtime() - wait_start;
        if (index == MPI_UNDEFINED) throw std::logic_error("nothing open, yet variables are unfinished");
        --open_;

        Variable& variable = variables_[index];
        const Exchange& done = exchanges[variable.stage++];
        if (compute) {
            unpack_blocks(variable, done);
            transform_lines(variable, done.to, direction);
        }
        if (variable.stage == 2) {
            if (compute && direction == Direction::kBackward) {
                const double scale = 1.0 / (double(size_[0]) * size_[1] * size_[2]);
                std::for_each_n(variable.data.get(), physical().points(),
                                [&](Complex& value) { value *= scale; });
            }
            ++finished;
            continue;
        }
        if (compute) pack_blocks(variable, exchanges[variable.stage]);
        variable.packed = true;
        post_in_order(variable.stage, exchanges[variable.stage], times);
    }
    times.total = MPI_Wtime() - start;
    return times;
}
