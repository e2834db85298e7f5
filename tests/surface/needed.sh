#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# needed.sh <library> <name>=<ON or OFF>...
#
# The shared library needs each library <name> that the build has, and none that the build has left out.

set -euo pipefail
needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
shift
status=0
for wanted in "$@"; do
	name=${wanted%=*} found=OFF
	! grep -q "^$name\.so" <<<"$needed" || found=ON
	if [[ $found != "${wanted#*=}" ]]; then
		echo "$name is needed: $found, and the build says ${wanted#*=}"
		status=1
	fi
done
echo "needed: ${needed//$'\n'/ }"
exit $status
