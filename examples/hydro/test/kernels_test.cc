// Kernels look at the sizes of what they are given before they touch it.
#include "../kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "../vec.h"

namespace {

struct Given {  // a call's buffers, each with exactly its bytes
    std::vector<std::vector<double>> memory;
    std::vector<View> views;

    template <typename Value>
    void add(const std::vector<Value>& values) {
        const std::size_t bytes = values.size() * sizeof(Value);
        memory.emplace_back((bytes + 7) / 8 + 1);
        std::memcpy(memory.back().data(), values.data(), bytes);
        views.push_back({memory.back().data(), bytes});
    }
    double* out(int index) { return memory[std::size_t(index)].data(); }
};

using Ints = std::vector<std::int32_t>;
using Doubles = std::vector<double>;
using Vecs = std::vector<Vec>;

// One zone, 2 wide and 1 high.
Given lengths() {
    Given given;
    given.add(Vecs{{0, 0}, {2, 0}, {2, 1}, {0, 1}});
    given.add(Ints{0, 1, 1, 2, 2, 3, 0, 3});
    given.add(Ints{0, 4});
    given.add(Ints{0, 1, 2, 3});
    given.add(Ints{1, 2, 3, 0});
    given.add(Ints{0, 1, 2, 3});
    given.add(Doubles(4));
    given.add(Doubles(1));
    given.add(std::vector<Stamp>(1));
    return given;
}
constexpr LengthsArguments kLengthsArguments{1, 4, 4, 4, 16};

Given masses() {
    Given given;
    given.add(Doubles{3});
    given.add(Doubles{2});
    given.add(Doubles{0.125, 0.125, 0.25, 0.5});
    given.add(Ints{0, 0, 0, 0});
    given.add(Ints{0, 1, 2, 3, 5});
    given.add(Ints{0, 1, 2, 3, 4});  // corner 4 is a ghost
    given.add(Ints{3});
    given.add(Doubles(4));
    given.add(Doubles(1));
    given.add(std::vector<Stamp>(1));
    return given;
}
constexpr MassesArguments kMassesArguments{1, 4, 4, 5, 1, 16};

Given energy() {
    Given given;
    given.add(Vecs{{-1, 0}, {0, 0}, {1, 0}, {0, 0}});
    given.add(Vecs{{0, 0}, {0, 0}, {0.5, 0}, {0, 0}});
    given.add(Vecs(4));
    given.add(Vecs{{0, 0}, {1, 0}, {1, 0}, {0, 0}});
    given.add(Doubles{2});
    given.add(Ints{0, 4});
    given.add(Ints{0, 1, 2, 3});
    given.add(Ints{1, 2, 3, 0});
    given.add(Doubles{10});
    given.add(Doubles(1));
    given.add(std::vector<Stamp>(1));
    return given;
}
constexpr EnergyArguments kEnergyArguments{1, 4, 4, 16, 0.5};

template <typename Arguments>
int call(KernelId kernel, const Arguments& arguments, const Given& given) {
    return kKernelTable[kernel].run(&arguments, sizeof arguments, given.views.data(),
                                    int(given.views.size()));
}

template <typename Arguments>
void refuses_wrong_sizes(KernelId kernel, const Arguments& arguments, Given (*make)()) {
    ASSERT_EQ(call(kernel, arguments, make()), 0);
    for (std::size_t i = 0; i < make().views.size(); ++i) {
        Given given = make();
        given.views[i].bytes -= 1;
        EXPECT_EQ(call(kernel, arguments, given), kBadCall) << kKernelTable[kernel].name << ", buffer " << i;
    }
    Given given = make();
    EXPECT_EQ(kKernelTable[kernel].run(&arguments, sizeof arguments - 1, given.views.data(),
                                       int(given.views.size())),
              kBadCall);
    EXPECT_EQ(kKernelTable[kernel].run(&arguments, sizeof arguments, given.views.data(),
                                       int(given.views.size()) - 1),
              kBadCall);
    Arguments negative = arguments;
    negative.zones = -1;
    EXPECT_EQ(call(kernel, negative, given), kBadCall);
}

TEST(Kernels, RefuseWrongSizes) {
    refuses_wrong_sizes(kLengths, kLengthsArguments, lengths);
    refuses_wrong_sizes(kMasses, kMassesArguments, masses);
    refuses_wrong_sizes(kEnergy, kEnergyArguments, energy);
}

TEST(Kernels, LengthsOfARectangle) {
    Given given = lengths();
    ASSERT_EQ(call(kLengths, kLengthsArguments, given), 0);
    EXPECT_DOUBLE_EQ(given.out(kLengthsEdge)[0], 2);
    EXPECT_DOUBLE_EQ(given.out(kLengthsEdge)[3], 1);
    EXPECT_DOUBLE_EQ(given.out(kLengthsZone)[0], 1);  // from its lower to its upper side
    Stamp stamp;
    std::memcpy(&stamp, given.out(kLengthsStamp), sizeof stamp);
    EXPECT_GT(stamp.began_ns, 0);
    EXPECT_GE(stamp.ended_ns, stamp.began_ns);
}

TEST(Kernels, MassesLeaveGhostsOut) {
    Given given = masses();
    ASSERT_EQ(call(kMasses, kMassesArguments, given), 0);
    EXPECT_DOUBLE_EQ(given.out(kMassesPoint)[0], 0.75);
    EXPECT_DOUBLE_EQ(given.out(kMassesPoint)[3], 3);
    EXPECT_DOUBLE_EQ(given.out(kMassesBorder)[0], 3);
}

// Points 1 and 2 move by 0.25 on average in 0.5; a zone that pushes them away loses energy.
TEST(Kernels, WorkIsTakenFromTheEnergy) {
    Given given = energy();
    ASSERT_EQ(call(kEnergy, kEnergyArguments, given), 0);
    // Side 0 pulls points 0 and 1 apart, side 2 points 2 and 3: power (-1)(-0.5) + 1.5 (0.5).
    EXPECT_DOUBLE_EQ(given.out(kEnergyEnergy)[0], 10 - 1.25 * 0.5 / 2);
    EXPECT_DOUBLE_EQ(given.out(kEnergyRate)[0], -0.25);
}

}  // namespace
