#include "problems.h"

#include <algorithm>

namespace {

Problem tube(const char* name, int zones_x, int zones_y, const char* about) {
    return {name, 1,      9, zones_x, zones_y,           1e-3, 1e-7, 1, 3, 1, 0.1, 0.3, 2,
            0.1,  2.5e-4, 6, 512,     Known::kShockTube, about};
}

Problem flat_blast(const char* name, int zones_x, int zones_y, const char* about) {
    return {name, 1,    1.125, zones_x, zones_y,           1,    0, 1, 0.025, 1, 12.569, 0.1, 1,
            0.1,  5e-7, 1,     1024,    Known::kFlatBlast, about};
}

}  // namespace

const std::vector<Problem>& problems() {
    static const std::vector<Problem> all = {
        tube("leblanc", 10, 90, "a strong shock tube, 10 x 90 zones"),
        tube("leblancx4", 640, 5760, "the same in 640 x 5760 zones"),
        flat_blast("sedovflat", 480, 540, "a flat blast wave, 480 x 540 zones"),
        flat_blast("sedovflatx4", 1920, 2160, "the same in 1920 x 2160 zones"),
        // In the plane this is a cylindrical blast, whose shock leaves the box earlier than a spherical one
        // does.
        {"sedov", 1.125, 1.125, 45, 45, 1, 0, 0.025, 0.025, 1, 5027.7, 0.1, 1, 0.1, 1e-4, 0.15, 1024,
         Known::kRoundBlast, "a blast in a corner, 45 x 45 zones"},
    };
    return all;
}

const Problem* find_problem(const std::string& name) {
    const auto found = std::find_if(problems().begin(), problems().end(),
                                    [&](const Problem& one) { return one.name == name; });
    return found == problems().end() ? nullptr : &*found;
}
