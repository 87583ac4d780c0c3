// The mesh is a rectangle of quadrilaterals; only this file knows. A rank's part is a rectangle, too.
#include "mesh.h"

#include <algorithm>
#include <array>
#include <map>

#include "problems.h"

namespace {

constexpr int kCorners = 4;  // of a zone: (0,0), (1,0), (1,1), (0,1)
constexpr std::array<int, kCorners> kOffsetX = {0, 1, 1, 0}, kOffsetY = {0, 0, 1, 1};

int part_begin(int zones, int parts, int part) {
    return int(std::int64_t(zones) * part / parts);
}

int part_of(int zones, int parts, int zone) {
    int part = int((std::int64_t(zone) * parts) / zones);
    while (part + 1 < parts && zone >= part_begin(zones, parts, part + 1)) ++part;
    while (zone < part_begin(zones, parts, part)) --part;
    return part;
}

// One rank's rectangle of zones [x0, x1) x [y0, y1) in the grid of all.
class Builder {
  public:
    Builder(const Problem& problem, int rank, int ranks_x, int ranks_y)
        : problem_(problem),
          rank_(rank),
          ranks_x_(ranks_x),
          ranks_y_(ranks_y),
          x0_(part_begin(problem.zones_x, ranks_x, rank % ranks_x)),
          x1_(part_begin(problem.zones_x, ranks_x, rank % ranks_x + 1)),
          y0_(part_begin(problem.zones_y, ranks_y, rank / ranks_x)),
          y1_(part_begin(problem.zones_y, ranks_y, rank / ranks_x + 1)) {}

    Mesh build() {
        make_points();
        make_zones();
        make_edges();
        join_points();
        return std::move(mesh_);
    }

  private:
    int width() const { return x1_ - x0_; }
    int height() const { return y1_ - y0_; }
    std::int32_t point_at(int x, int y) const { return std::int32_t((y - y0_) * (width() + 1) + x - x0_); }
    std::int32_t corner_at(int x, int y, int corner) const {
        return std::int32_t(((y - y0_) * width() + x - x0_) * kCorners + corner);
    }
    bool is_mine(int x, int y) const { return x >= x0_ && x < x1_ && y >= y0_ && y < y1_; }
    int owner(int x, int y) const {
        return part_of(problem_.zones_y, ranks_y_, y) * ranks_x_ + part_of(problem_.zones_x, ranks_x_, x);
    }

    void make_points() {
        mesh_.points = (width() + 1) * (height() + 1);
        for (int y = y0_; y <= y1_; ++y)
            for (int x = x0_; x <= x1_; ++x) {
                mesh_.position.push_back(
                    {problem_.width * x / problem_.zones_x, problem_.height * y / problem_.zones_y});
                mesh_.point_number.push_back(std::int64_t(y) * (problem_.zones_x + 1) + x);
                mesh_.point_walls.push_back(std::uint8_t((x == 0 || x == problem_.zones_x ? kWallX : 0) |
                                                         (y == 0 || y == problem_.zones_y ? kWallY : 0)));
            }
    }

    void make_zones() {
        mesh_.zones = width() * height();
        mesh_.corners = mesh_.zones * kCorners;
        mesh_.zones_global = std::int64_t(problem_.zones_x) * problem_.zones_y;
        for (int y = y0_; y < y1_; ++y)
            for (int x = x0_; x < x1_; ++x) {
                const auto first = std::int32_t(mesh_.corner_point.size());
                mesh_.zone_corner.push_back(first);
                mesh_.zone_number.push_back(std::int64_t(y) * problem_.zones_x + x);
                for (int i = 0; i < kCorners; ++i) {
                    mesh_.corner_zone.push_back(std::int32_t(mesh_.zone_number.size() - 1));
                    mesh_.corner_point.push_back(
                        point_at(x + kOffsetX[std::size_t(i)], y + kOffsetY[std::size_t(i)]));
                    mesh_.corner_next.push_back(first + (i + 1) % kCorners);
                }
            }
        mesh_.zone_corner.push_back(mesh_.corners);
    }

    // Edges along x first, then along y; each is between two neighbouring points.
    void make_edges() {
        const int along_x = width() * (height() + 1);
        mesh_.edges = along_x + (width() + 1) * height();
        mesh_.edge_points.resize(2 * std::size_t(mesh_.edges));
        mesh_.corner_edge.resize(std::size_t(mesh_.corners));
        for (int y = y0_; y < y1_; ++y)
            for (int x = x0_; x < x1_; ++x) {
                const int at_x = (y - y0_) * width() + x - x0_,
                          at_y = along_x + (y - y0_) * (width() + 1) + x - x0_;
                const std::array<int, kCorners> edges = {at_x, at_y + 1, at_x + width(), at_y};
                for (int i = 0; i < kCorners; ++i) {
                    const std::int32_t corner = corner_at(x, y, i);
                    const int edge = edges[std::size_t(i)];
                    mesh_.corner_edge[std::size_t(corner)] = edge;
                    const std::int32_t one = mesh_.corner_point[std::size_t(corner)];
                    const std::int32_t other =
                        mesh_.corner_point[std::size_t(mesh_.corner_next[std::size_t(corner)])];
                    mesh_.edge_points[2 * std::size_t(edge)] = std::min(one, other);
                    mesh_.edge_points[2 * std::size_t(edge) + 1] = std::max(one, other);
                }
            }
    }

    struct Exchange {  // with one rank; both sides walk through points and zones in the same order
        std::vector<std::int32_t> sent;
        std::vector<std::size_t> received;  // places in point_corners
    };

    void join_points() {
        std::map<int, Exchange> exchanges;
        std::vector<std::uint8_t> is_sent(std::size_t(mesh_.corners));
        for (int y = y0_; y <= y1_; ++y)
            for (int x = x0_; x <= x1_; ++x) join_point(x, y, exchanges, is_sent);
        mesh_.point_corner.push_back(std::int32_t(mesh_.point_corners.size()));
        for (auto& [rank, exchange] : exchanges) {
            mesh_.neighbours.push_back(
                {rank, std::move(exchange.sent), mesh_.ghosts, int(exchange.received.size())});
            for (const std::size_t place : exchange.received)
                mesh_.point_corners[place] = mesh_.corners + mesh_.ghosts++;
        }
        for (std::int32_t corner = 0; corner < mesh_.corners; ++corner)
            if (is_sent[std::size_t(corner)]) mesh_.border_corners.push_back(corner);
    }

    void join_point(int x, int y, std::map<int, Exchange>& exchanges, std::vector<std::uint8_t>& is_sent) {
        mesh_.point_corner.push_back(std::int32_t(mesh_.point_corners.size()));
        std::vector<std::int32_t> mine;
        std::vector<int> others;
        for (const int corner : {2, 3, 1, 0}) {  // the zones around a point, by their global numbers
            const int zone_x = x - kOffsetX[std::size_t(corner)], zone_y = y - kOffsetY[std::size_t(corner)];
            if (zone_x < 0 || zone_x >= problem_.zones_x || zone_y < 0 || zone_y >= problem_.zones_y)
                continue;
            if (is_mine(zone_x, zone_y)) {
                mine.push_back(corner_at(zone_x, zone_y, corner));
                mesh_.point_corners.push_back(mine.back());
            } else {
                others.push_back(owner(zone_x, zone_y));
                exchanges[others.back()].received.push_back(mesh_.point_corners.size());
                mesh_.point_corners.push_back(-1);  // becomes the number of a ghost
            }
        }
        if (!others.empty()) mesh_.border_points.push_back(point_at(x, y));
        mesh_.point_owned.push_back(others.empty() ||
                                    rank_ < *std::min_element(others.begin(), others.end()));
        std::sort(others.begin(), others.end());
        others.erase(std::unique(others.begin(), others.end()), others.end());
        for (const int other : others)
            for (const std::int32_t corner : mine) {
                exchanges[other].sent.push_back(corner);
                is_sent[std::size_t(corner)] = 1;
            }
    }

    const Problem& problem_;
    const int rank_, ranks_x_, ranks_y_;
    const int x0_, x1_, y0_, y1_;
    Mesh mesh_;
};

}  // namespace

void choose_grid(int zones_x, int zones_y, int ranks, int& ranks_x, int& ranks_y) {
    double least = 0;
    ranks_x = ranks_y = 0;
    for (int x = 1; x <= ranks; ++x) {
        if (ranks % x != 0 || x > zones_x || ranks / x > zones_y) continue;
        const double border = double(zones_y) * (x - 1) + double(zones_x) * (ranks / x - 1);
        if (ranks_x == 0 || border < least) {
            least = border;
            ranks_x = x;
            ranks_y = ranks / x;
        }
    }
}

Mesh build_mesh(const Problem& problem, int rank, int ranks_x, int ranks_y) {
    return Builder(problem, rank, ranks_x, ranks_y).build();
}
