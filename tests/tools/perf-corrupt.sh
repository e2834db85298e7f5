#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# perf-corrupt.sh <rpma-perf> <corrupt module> -- --verify finds wrong data, in each kind of operation

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
. "$here/common.sh"
perf=$1 corrupt=$2

# the count exceeds the number of slots, so each is written several times
for op in write read send write-with-imm atomic-write cas write+flush write_flush; do
	expect 0 "" "$perf" local --op $op --count 100 --depth 8 --verify --json
	is '.results[0].wrong == 0'
	expect 3 "WRONG DATA" env LD_PRELOAD="$corrupt" "$perf" local --op $op --count 100 --depth 8 --verify --json
	is '.results[0].wrong > 0'
	# without --verify no data is checked
	expect 0 "" env LD_PRELOAD="$corrupt" "$perf" local --op $op --count 100 --depth 8 --json
done
