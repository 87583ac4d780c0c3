// The kernels that may be handed over to a process beside the rank. Each is a plain function of arguments
// without pointers and of buffers; it knows nothing of MPI, keeps nothing between calls, and runs with as
// many threads as OpenMP gives it. Its results do not depend on where it runs nor on the threads.
#pragma once

#include <cstddef>
#include <cstdint>

struct View {  // a buffer as the process sees it in which the kernel runs
    void* data;
    std::size_t bytes;
};

using Function = int (*)(const void* arguments, std::size_t arguments_bytes, const View* buffers,
                         int buffers_count);

struct Kernel {
    const char* name;
    Function run;  // 0, or kBadCall
    int version;   // handed over from this version of the offload on; 2 hands over fewer kernels than 1
};

enum KernelId : int { kLengths, kMasses, kEnergy, kKernels };
extern const Kernel kKernelTable[kKernels];

constexpr int kBadCall = 1;  // arguments or buffers do not have the sizes that they must have

// When a kernel ran, by CLOCK_MONOTONIC; the last buffer of each. Processes of one machine share that clock.
struct Stamp {
    std::int64_t began_ns, ended_ns;
};

// To a task process, before all kernels.
struct SetUpArguments {
    double slow;  // kernels take so many times as long, as on a slower core
    std::int32_t threads;
};

// Buffers in the order in which they are given. "Constant": the same at each call of a run.

struct LengthsArguments {  // lengths of edges, and of zones the least distance between opposite sides
    std::int32_t zones, edges, corners, points, chunk;
};
enum LengthsBuffer : int {
    kLengthsPosition,     // in: Vec of each point
    kLengthsEdgePoints,   // constant
    kLengthsZoneCorner,   // constant
    kLengthsCornerPoint,  // constant
    kLengthsCornerNext,   // constant
    kLengthsCornerEdge,   // constant
    kLengthsEdge,         // out: of each edge
    kLengthsZone,         // out: of each zone
    kLengthsStamp,
    kLengthsBuffers
};

struct MassesArguments {  // masses of points: sums of their corners', of local zones alone
    std::int32_t zones, points, corners, point_corners, border_corners, chunk;
};
enum MassesBuffer : int {
    kMassesDensity,        // in: of each zone
    kMassesVolume,         // in: of each zone
    kMassesCornerShare,    // constant: of its zone's mass, for each corner
    kMassesCornerZone,     // constant
    kMassesPointCorner,    // constant
    kMassesPointCorners,   // constant
    kMassesBorderCorners,  // constant
    kMassesPoint,          // out: of each point; at a border without the ghost corners
    kMassesBorder,         // out: of each border corner
    kMassesStamp,
    kMassesBuffers
};

struct EnergyArguments {  // work of the forces on each zone, the rate of what is not compression, and the
                          // energy
    std::int32_t zones, points, corners, chunk;
    double step;
};
enum EnergyBuffer : int {
    kEnergyPressureForce,   // in: Vec of each side
    kEnergyOtherForce,      // in: Vec of each side; viscosity and what keeps subzones in shape
    kEnergyVelocityBefore,  // in: Vec of each point
    kEnergyVelocityAfter,   // in: Vec of each point
    kEnergyZoneMass,        // constant
    kEnergyZoneCorner,      // constant
    kEnergyCornerPoint,     // constant
    kEnergyCornerNext,      // constant
    kEnergyEnergy,          // in, out: of each zone, per mass
    kEnergyRate,            // out: work per time that is not compression, of each zone
    kEnergyStamp,
    kEnergyBuffers
};
