# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# common.sh -- for the tests of the tools; to be sourced

set -euo pipefail

command -v jq >/dev/null || {
	echo "SKIPPED: jq is not installed"
	exit 77
}

# in the build directory: files there are on a disk, and are removed at the end
work=$(mktemp -d "$PWD/tools-XXXXXX")
started=()
cleanup()
{
	local pid
	for pid in "${started[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
}
trap cleanup EXIT

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

# expect <status> <text> <command...>: the status and the text in the output must match; with an empty text, standard
# error must stay empty
expect()
{
	local wanted=$1 text=$2 status=0
	shift 2
	timeout 200 "$@" >"$work/out" 2>"$work/err" || status=$?
	if ((status != wanted)); then
		cat "$work/out" "$work/err" >&2
		fail "status $status and not $wanted: $*"
	fi
	if [[ -z $text ]]; then
		[[ ! -s $work/err ]] || fail "says \"$(head -n 3 "$work/err")\": $*"
	else
		grep -qF -- "$text" "$work/err" || fail "does not say \"$text\" but \"$(head -n 3 "$work/err")\": $*"
	fi
}

# is <jq filter that must be true> [file]
is()
{
	[[ $(jq "$1" "${2:-$work/out}") == true ]] || {
		cat "${2:-$work/out}" >&2
		fail "not so: $1"
	}
}

# until_true <what> <command...>: polls until the command succeeds, for at most 30 seconds
until_true()
{
	local what=$1 end=$((SECONDS + 30))
	shift
	until "$@"; do
		((SECONDS < end)) || fail "in vain: $what"
		sleep 0.02
	done
}

# in_manual <page>: the page explains exactly the options in the last output of --help
# shellcheck disable=SC2154 # the script that sources this sets "here"
in_manual()
{
	local help manual
	help=$(grep -o -- '--[a-z-]\+' "$work/out" | sort -u)
	manual=$(sed 's/\\-/-/g; /^# SEE ALSO/,$d' "$here/../../doc/manuals/$1" | sed -n '/^\*\*--/p' |
		grep -o -- '\*\*--[a-z-]\+' | tr -d '*' | sort -u)
	[[ $help == "$manual" ]] || fail "--help and $1 differ: $(diff <(echo "$help") <(echo "$manual"))"
}

# what holds for every result; a percentile is there if a latency above it is expected
# shellcheck disable=SC2034 # for the scripts that source this
sane='(.results | length) > 0 and all(.results[];
	.ops > 0 and .seconds > 0 and .wrong == 0 and .ops_per_s > 0 and .mb_per_s > 0 and .cpu_us_per_op >= 0
	and .latency_us.count > 0 and .latency_us.count <= .ops and .latency_us.max > 0
	and (.latency_us | [.p50, .p90, .p99, ."p99.9", .max] | map(select(. != null)) | . == sort)
	and (.latency_us | [.p50, .p90, .p99, ."p99.9"] | map(. != null))
		== (.latency_us.count | [. >= 2, . >= 10, . >= 100, . >= 1000]))'
