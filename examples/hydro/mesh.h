// A rank's part of the mesh, stored unstructured: zones are lists of corners, and all relations are arrays of
// indices. A corner belongs to one zone and one point; it also stands for the side of its zone between its
// point and the next one. A point on the border between ranks is known to each of them; sums over its corners
// include corners of other ranks' zones (ghost corners), whose values come by a message (border.h). Every
// rank adds them in the order of the zones' global numbers: a sum is the same to the last bit wherever it is
// made, and however the mesh is split.
#pragma once

#include <cstdint>
#include <vector>

#include "vec.h"

struct Problem;

// What a rank exchanges with one other rank about the points that both know.
struct Neighbour {
    int rank;
    std::vector<std::int32_t>
        corners;                   // local ones whose values are sent, in the order of the receiver's ghosts
    int ghost_begin, ghost_count;  // ghost corners received from there
};

struct Mesh {
    int zones = 0, points = 0, edges = 0, corners = 0, ghosts = 0;
    std::vector<std::int32_t> zone_corner;   // first corner of each zone, and the end: zones + 1
    std::vector<std::int32_t> corner_zone;   // the zone of each corner
    std::vector<std::int32_t> corner_point;  // the point of each corner
    std::vector<std::int32_t> corner_next;   // the next corner around its zone, counter-clockwise
    std::vector<std::int32_t> corner_edge;   // the edge of the side that begins at the corner
    std::vector<std::int32_t> edge_points;   // two for each edge
    std::vector<std::int32_t>
        point_corner;  // where each point's corners begin in point_corners, and the end: points + 1
    std::vector<std::int32_t>
        point_corners;  // corners of each point by the global number of their zones; local or ghost
    std::vector<Neighbour> neighbours;
    std::vector<std::int32_t> border_points;  // points with ghost corners
    std::vector<std::int32_t>
        border_corners;  // local corners of those points; a neighbour receives each of them
    std::vector<std::uint8_t> point_walls;                // kWallX: does not move in x; kWallY: nor in y
    std::vector<std::uint8_t> point_owned;                // whether this rank counts the point
    std::vector<std::int64_t> zone_number, point_number;  // global
    std::vector<Vec> position;                            // of points, at time 0
    std::int64_t zones_global = 0;
};

constexpr std::uint8_t kWallX = 1, kWallY = 2;

// Ranks in x and y whose parts have the least border.
void choose_grid(int zones_x, int zones_y, int ranks, int& ranks_x, int& ranks_y);

Mesh build_mesh(const Problem& problem, int rank, int ranks_x, int ranks_y);
