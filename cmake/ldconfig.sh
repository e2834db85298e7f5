#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
exec /sbin/ldconfig
