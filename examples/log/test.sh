# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash disable=SC2154 # variables of run-example

# test.sh -- the messages of the example, and where they go; for run-example

program log log
wait_program log $!
(($(grep -c '\*ERROR\*' log.err) == 2 && $(grep -c '^my own log: ERROR: ' log.err) == 1)) ||
	fail 'not the messages that there should be'
grep -q '^An error that nobody hears of:$' log.out || fail 'it does not explain itself'
