// The way of Williams et al., "Exploring Challenges Associated with Employing SmartNICs as General-Purpose
// HPC Accelerators": beside each rank a peer, a process of the same MPI job that runs another program
// (multiple program, multiple data) and exchanges plain messages with its rank. Peers sum the masses of
// points at borders among themselves.
#pragma once

#include <mpi.h>

#include <memory>

#include "mesh.h"
#include "side.h"

enum class Role : int { kRank, kPeer };

// Who is who in MPI_COMM_WORLD: `mine` holds all processes of one's own role, in their order; rank i there
// and peer i are partners. partner: its number in MPI_COMM_WORLD; -1 without.
struct Roles {
    MPI_Comm mine;
    int partner, ranks, peers;
};
Roles split_roles(Role role);  // collective over MPI_COMM_WORLD

// How all processes end at once where any cannot go on, collective over MPI_COMM_WORLD: -1 to go on, else the
// exit status, the gravest of theirs. MPI_Abort would do, but launchers forward nothing that they have not
// read by then.
int agree_to_end(int status);

// The rank's end. Destroying it tells the peer to end.
std::unique_ptr<Side> make_mpmd_side(const Mesh& mesh, int partner);

struct PeerOptions {
    double slow = 1;  // kernels take so many times as long, as on a slower core
};
// The peer's end: serves its rank until that is done.
void serve_rank(const Roles& roles, const PeerOptions& options);
