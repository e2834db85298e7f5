#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# abi.sh <librpma.so> <project> [--update]
#
# Compares the interface of the shared library with the one recorded in librpma.abi: functions, their parameters, and
# the types of the header. Additions are allowed; --update records them when a version is released. Changes and removals
# are errors. The types of libibverbs are not compared.

set -euo pipefail
lib=$1 project=$(realpath "$2") update=${3-}
here=$project/tests/surface
kept=$here/librpma.abi

if ! command -v abidw >/dev/null; then
	echo "SKIPPED: abidw is not installed (abigail-tools)"
	exit 77
fi
new=$(mktemp)
trap 'rm "$new"' EXIT
# without anything that depends on this machine
abidw --exported-interfaces-only --drop-private-types --header-file "$project/include/librpma.h" --drop-undefined-syms \
	--no-elf-needed --no-comp-dir-path --no-corpus-path --no-show-locs "$lib" |
	sed "s| path='$project/| path='|" >"$new"

if [[ $update == --update ]]; then
	cp "$new" "$kept"
	exit
fi
status=0
abidiff --suppressions "$here/abi-exceptions.ini" --no-show-locs "$kept" "$new" || status=$?
# bit 4 is a change, bit 8 one that breaks programs; additions count as changes too
if ((status & 3)); then
	exit 1
fi
abidiff --suppressions "$here/abi-exceptions.ini" --no-show-locs --no-added-syms "$kept" "$new" >/dev/null
echo 'nothing that was there has changed'
