#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# run-all-examples.sh -- run-all, by the name that the original's has

exec "$(dirname "$(realpath "$0")")/run-all" "$@"
