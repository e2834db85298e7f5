#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# run-all-examples.sh -- run-all, under the name that the original uses

exec "$(dirname "$(realpath "$0")")/run-all" "$@"
