#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# checked-calls.sh <librpma_testing.a> <checked_calls.c>
#
# With _FORTIFY_SOURCE the library calls __poll_chk() in place of poll(), and the like. The tests replace poll(), so
# checked_calls.c must have a stand-in for each such call that a test may replace. Calls that only use memory need none.

set -euo pipefail
archive=$1 source=$2
only_memory='(mem[a-z]+|str[a-z]+|v?snprintf|v?sprintf|v?asprintf|v?fprintf|vdprintf|dprintf|printf|v?syslog|explicit_bzero|fdelt|longjmp|stack)'
status=0
while read -r call; do
	if ! grep -q "^$call(" "$source"; then
		echo "$call() is called, and $source has no stand-in for it"
		status=1
	fi
done < <(nm -u "$archive" | sed -n 's/^ *U \(__[a-z_]*_chk\|__open_2\)$/\1/p' | sort -u | grep -vE "^__${only_memory}_chk\$")
exit $status
