# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# compare.awk -- compares the results of a suite with the expected ones
#
# Both files have a line for each test: "<name> | pass", "<name> | skip: <reason>", "<name> | fail: <whose, reason>". A
# name must not contain " | ". In the list of expected results, lines that begin with # are comments, and "either:
# <whose, reason>" is a known race: the test must run, and may fail. Only the words are compared; the reason is for
# readers. Exit status 1 if anything differs.

function outcome(line) { sub(/^.* \| /, "", line); sub(/:.*$/, "", line); return line }
function name(line) { sub(/ \| .*$/, "", line); return line }
function differs(text) { print suite ": " text; wrong++ }

FILENAME == ARGV[1] && (/^#/ || NF == 0) { next }
FILENAME == ARGV[1] {
	if (name($0) in expected)
		differs("listed twice: " name($0))
	expected[name($0)] = outcome($0)
	next
}
{
	test = name($0)
	seen[test]++
	count[outcome($0)]++
	if (!(test in expected))
		differs("not in the list: " $0)
	else if (seen[test] == 1 && expected[test] != outcome($0) && expected[test] != "either")
		differs("expected " expected[test] ": " $0)
	else if (seen[test] > 1)
		differs("ran twice: " test)
}
END {
	for (test in expected)
		if (!(test in seen))
			differs("is in the list, and was not run: " test)
	printf "%s: %d pass, %d skip, %d fail; %d not as expected\n", suite, count["pass"], count["skip"], count["fail"], wrong
	exit wrong > 0
}
