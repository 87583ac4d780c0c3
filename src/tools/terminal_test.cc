// Text on narrow terminals.
#include "tools/terminal.h"

#include <gtest/gtest.h>

namespace longshore::tools {
namespace {

TEST(Terminal, WhatFitsOrHasNoTerminalStaysAsItIs) {
    const std::string text = "one\n\n  two  three\nno end";
    EXPECT_EQ(wrapped(text, 80), text);
    const std::string line(200, 'x');
    EXPECT_EQ(wrapped("a " + line, 0), "a " + line);
}

TEST(Terminal, LinesGoOnBelowTheirLastColumn) {
    EXPECT_EQ(wrapped("  --option NAME   says what this option does in many words\n", 40),
              "  --option NAME   says what this option\n"
              "                  does in many words\n");
    EXPECT_EQ(wrapped("  some words without columns that are too long\nnext", 40),
              "  some words without columns that are\n  too long\nnext");
}

TEST(Terminal, AColumnFarToTheRightIsNoPlaceToGoOn) {
    EXPECT_EQ(wrapped("  a command with many arguments   and what it is\n", 40),
              "  a command with many arguments   and\n  what it is\n");
}

TEST(Terminal, ALongWordStaysWhole) {
    const std::string word(50, 'w');
    EXPECT_EQ(wrapped("  " + word + " and more\n", 40), "  " + word + "\n  and more\n");
    EXPECT_EQ(wrapped("  " + word + "\n", 40), "  " + word + "\n");
    EXPECT_EQ(wrapped("  first " + word + " and\n", 40), "  first\n  " + word + "\n  and\n");
}

TEST(Terminal, SentencesGoOnInTheNextLine) {
    EXPECT_EQ(wrapped("One sentence that is longer than forty columns,\nand its end.\n\nNext.\n", 40),
              "One sentence that is longer than forty\ncolumns, and its end.\n\nNext.\n");
    // Commands that stand below each other do not, and can be copied.
    EXPECT_EQ(wrapped("  longshore run mpirun -np 8 ./a-long-program\n  longshore env\n", 40),
              "  longshore run mpirun -np 8 \\\n      ./a-long-program\n  longshore env\n");
}

TEST(Terminal, BytesAreOfAThousand) {
    for (const auto& [bytes, text] : {std::pair{uint64_t{0}, "0 B"},
                                      {999, "999 B"},
                                      {1000, "1.0 KB"},
                                      {4'194'304, "4.2 MB"},
                                      {99'949, "99.9 KB"},
                                      {99'960, "100 KB"},
                                      {999'499, "999 KB"},
                                      {999'500, "1.0 MB"},
                                      {25'300'000'000, "25.3 GB"},
                                      {~uint64_t{0}, "18.4 EB"}})
        EXPECT_EQ(bytes_text(bytes), text);
}

}  // namespace
}  // namespace longshore::tools
