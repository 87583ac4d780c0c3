#!/usr/bin/env bash
# The engine is pure: its objects may import memory functions and the end of the program, and nothing else. No heap,
# exceptions, clock, I/O or threads.      check_purity.sh BUILD_DIR
set -euo pipefail
build=${1:?usage: check_purity.sh BUILD_DIR}

mapfile -t objects < <(find "$build/src/engine/CMakeFiles/longshore_engine.dir" -name '*.o' 2>/dev/null | sort)
if ((${#objects[@]} == 0)); then
    echo "check_purity: no objects of longshore_engine under $build; build it first" >&2
    exit 1
fi

# aarch64_* are libgcc's atomics, which take the processor's own instructions where it has them;
# glibcxx_assert_fail is the abort of the library's own assertions, cxa_pure_virtual that of a call to nowhere.
allowed='^(mem(cpy|move|set|cmp|chr)|abort|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__cxa_pure_virtual'
allowed+='|__aarch64_(cas|swp|ld(add|clr|set|eor))[1-8]_[a-z_]+|_ZSt21__glibcxx_assert_fail.*|_ZTVN10__cxxabiv1.*)$'

# What one object of the engine imports from another is its own.
defined=$(nm -P --defined-only "${objects[@]}" | awk 'NF > 1 { print $1 }' | sort -u)
offences=0
for object in "${objects[@]}"; do
    while read -r symbol; do
        [[ -z $symbol || $symbol =~ $allowed ]] && continue
        echo "check_purity: $(basename "$object" .o) imports $(c++filt "$symbol")"
        offences=$((offences + 1))
    done < <(comm -23 <(nm -P -u "$object" | awk '{ print $1 }' | sort -u) <(echo "$defined"))
done
if ((offences > 0)); then
    echo "check_purity: $offences imports that the engine must not have" >&2
    exit 1
fi
echo "check_purity: ${#objects[@]} objects import nothing but mem* and abort"
