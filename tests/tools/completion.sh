#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# completion.sh <rpma-perf> <completion for bash>
#
# bash completes each option of --help, nothing else, and the words that options take are those of --help.

set -euo pipefail
perf=$1
help=$("$perf" --help)
# shellcheck disable=SC1090 # a file of the project
. "$2"

# completes <expected words, sorted> <words of the command line...>: the last one is being completed
completes()
{
	local expected=$1
	shift
	COMP_CWORD=$(($# - 1))
	_rpma_tools "$perf" "${!#}" "${*: -2:1}"
	if [[ ${COMPREPLY[*]} != "$expected" ]]; then
		echo "$*: ${COMPREPLY[*]}: expected $expected"
		exit 1
	fi
}

complete -p rpma-perf rpma-info rpma-keeper
completes 'client local server' rpma-perf ''
completes client rpma-perf cl
options=$(grep -oE '^  (--[a-z-]+(, )?)+' <<<"$help" | grep -oE -- '--[a-z-]+' | sort -u | tr '\n' ' ')
completes "${options% }" rpma-perf local --
(($(wc -w <<<"$options") >= 26)) || { echo "too few options: $options"; exit 1; }
completes '--depth --device' rpma-perf local --de
completes 'persistent' rpma-perf local --flush-type p
completes '' rpma-perf local --depth 4

# value <option> <words as --help has them>
value()
{
	local word
	COMP_CWORD=3
	_rpma_tools "$perf" '' "$1"
	for word in "${COMPREPLY[@]}"; do
		grep -A 2 -E -- "^  $1 " <<<"$help" | grep -qF -- "$word" || { echo "$1 takes no $word"; exit 1; }
	done
	echo "$1: ${COMPREPLY[*]}"
}
for option in --op --flush-type --wait --target-waits --device; do
	value $option
done

cd "$(mktemp -d)"
touch file-of-memory
completes file-of-memory rpma-perf local --memory file
rm -r "$PWD"
