# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# common.sh -- code shared by the benchmarks: build, description of the machine, tables in documents; to be sourced

build=build/benchmarks

# build_targets <target...>
build_targets()
{
	mkdir -p build
	cmake -S . -B "$build" -DBUILD_DOC=OFF -DBUILD_BENCHMARKS=ON >"$build.log"
	cmake --build "$build" -j "$(nproc)" --target "$@" >>"$build.log"
}

# processors, kernel, distribution
describe_machine()
{
	local model
	model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
	echo "$(nproc) cores of ${model:-$(uname -m)}, Linux $(uname -r | cut -d- -f1), $(. /etc/os-release && echo "$PRETTY_NAME")"
}

# how many processors other programs, or other guests of the host, keep busy: over three seconds, for the load that the
# kernel tells is that of the last minute, in which the benchmark itself was built
machine_load()
{
	{
		head -n 1 /proc/stat
		sleep 3
		head -n 1 /proc/stat
	} | awk -v processors="$(nproc)" '
		{
			all = 0
			for (i = 2; i <= 9; i++)
				all += $i
			idle = $5 + $6
			if (NR == 2)
				printf "%.2f\n", processors * (1 - (idle - idle_before) / (all - all_before))
			all_before = all; idle_before = idle
		}'
}

# true if the machine was too busy for the figures to mean much
is_busy()
{
	awk -v load="$1" 'BEGIN { exit load < 0.2 }'
}

# put_table <name> <file> <document>: replaces the lines between <!-- begin name --> and <!-- end name -->
put_table()
{
	if ! grep -q "^<!-- begin $1 -->\$" "$3" || ! grep -q "^<!-- end $1 -->\$" "$3"; then
		echo "$3 has no place for the table \"$1\"" >&2
		return 1
	fi
	sed -i -e "/^<!-- begin $1 -->\$/,/^<!-- end $1 -->\$/{//!d}" -e "/^<!-- begin $1 -->\$/r $2" "$3"
}
