// A gas in the plane on a mesh that moves with it: positions, velocities and masses at points, density,
// energy and pressure in zones. Each cycle advances to the middle of a step (the predictor), computes forces
// there, and with them advances to its end (the corrector).
//   E. J. Caramana, D. E. Burton, M. J. Shashkov, P. P. Whalen, "The construction of compatible hydrodynamics
//   algorithms utilizing conservation of total energy", J. Comput. Phys. 146 (1998): forces and work are made
//   of the same numbers, so the total energy is kept to rounding.
// One object for each rank, used by one thread; loops run with OpenMP's.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <vector>

#include "border.h"
#include "kernels.h"
#include "mesh.h"
#include "problems.h"
#include "side.h"

// A kernel's times in one cycle, in seconds.
struct KernelTimes {
    double submit = 0;  // in submitting; of a kernel that is not handed over, in computing it
    double wait = 0;    // in waiting for it
    double run = 0;     // computing, wherever that was
    double round_trip =
        0;  // from submitting until the result was there; meaningless with clocks that are not shared
    double slack = 0;   // from there until its first use; negative: the rank had to wait
    double window = 0;  // from the end of submitting until its first use, by the rank's own clock
};

struct Energies {
    double internal, kinetic;
    double total() const { return internal + kinetic; }
};

class Hydro {
  public:
    // `side` and `mesh` outlive this object. `threads_chunk`: zones that a thread takes at once.
    Hydro(const Problem& problem, const Mesh& mesh, MPI_Comm comm, Side& side, int threads_chunk);

    void cycle();   // collective
    void settle();  // waits for what is handed over; the state may be read then, until the next cycle
    // From the next cycle on: bit k says that kernel k is handed over. The same on all ranks.
    void hand_over(unsigned kernels);
    unsigned handed_over() const { return handed_; }

    double time() const { return time_; }
    double step() const { return step_; }  // of the next cycle
    std::int64_t cycles() const { return cycles_; }
    bool is_over() const { return time_ >= problem_.time_end; }
    const std::array<KernelTimes, kKernels>& times() const {
        return finished_;
    }  // of the last that was waited for
    std::size_t bytes_handed(
        KernelId kernel) const;  // in one cycle: what is given and taken, constants apart

    Energies energies() const;       // of all ranks; collective
    std::uint64_t checksum() const;  // of all ranks' state, every bit and where it stands; collective
    const std::vector<Vec>& position() const { return position_; }
    const std::vector<double>& density() const { return density_; }
    const std::vector<double>& energy() const { return energy_; }
    const Mesh& mesh() const { return mesh_; }

  private:
    void set_up();
    void advance_half();
    void half_geometry();
    void half_forces();
    void viscosity();
    void corner_forces();
    void finish_masses();
    void accelerate();
    void full_geometry();
    void next_step();

    void start(KernelId kernel, const void* arguments, std::size_t bytes);
    void finish(KernelId kernel);
    void start_lengths();
    void start_masses();
    void start_energy();
    std::vector<Buffer> lengths_buffers();
    std::vector<Buffer> masses_buffers();
    std::vector<Buffer> energy_buffers();

    const Problem& problem_;
    const Mesh& mesh_;
    const MPI_Comm comm_;
    Side& side_;
    const int chunk_;
    Border<double> mass_border_;
    Border<Vec> force_border_;

    // Of points.
    std::vector<Vec> position_before_, position_, velocity_before_, velocity_;
    std::vector<double> point_mass_;
    // Of zones.
    std::vector<Vec> centre_;
    std::vector<double> zone_mass_, energy_, density_, volume_before_, volume_, pressure_, sound_, signal_,
        rate_, zone_length_;
    // Of corners, or of the sides that begin there; with room for ghosts where a border needs it.
    std::vector<double> corner_share_, side_share_, corner_mass_, border_mass_;
    std::vector<Vec> pressure_force_, other_force_, corner_force_;
    std::vector<double> edge_length_;

    double time_ = 0, step_ = 0, step_before_ = 0, step_limit_ = 0;
    std::int64_t cycles_ = 0;
    unsigned handed_ = 0, next_handed_ = 0;
    std::array<bool, kKernels> under_way_{}, under_way_handed_{};
    std::array<double, kKernels> started_{};
    std::array<Stamp, kKernels> stamps_{};
    std::array<KernelTimes, kKernels> times_{}, finished_{};
};
