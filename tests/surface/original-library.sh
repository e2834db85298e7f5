#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# original-library.sh <tests/lib/original-library> <our librpma.h> <our librpma.so>
#
# The tests that compare with the original get nothing of this project for it, whatever is installed.

set -euo pipefail
script=$1 our_header=$2 our_library=$3
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
root=$dir/root

# refuses <words>: nothing is copied, and the reason has these words. It is not printed, because CI counts a test
# that prints such a reason as failed.
refuses()
{
	local out status=0
	out=$("$script" "$dir/copy" "$root") || status=$?
	if ((status != 77)) || [[ $out != SKIPPED:*"$1"* || -e $dir/copy ]]; then
		echo "status $status: '$out' instead of: $1"
		exit 1
	fi
	echo "refused: $1"
}

mkdir -p "$root/usr/include" "$root/usr/lib"
refuses "librpma-dev is not"
cp "$our_header" "$root/usr/include/librpma.h"
refuses "usr/include/librpma.h is this project's own"
echo 'int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd);' >"$root/usr/include/librpma.h"
refuses "librpma0 is not"
cp -L "$our_library" "$root/usr/lib/librpma.so.0"
refuses "usr/lib/librpma.so.0 is this project's own"

# a library that another one is not mistaken for
gcc -shared -o "$root/usr/lib/librpma.so.0" -x c /dev/null
"$script" "$dir/copy" "$root"
cmp "$dir/copy/include/librpma.h" "$root/usr/include/librpma.h"
cmp "$dir/copy/lib/librpma.so" "$root/usr/lib/librpma.so.0"
