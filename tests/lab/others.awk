# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# others.awk -- makes the table of others: reads "others-differences", then <column>/<suite>.results of the columns soft
# and rxe
#
# The file named by the variable table gets all rows; the output has their number, and the rows that differ. Exit status
# 1 if a test passes over SoftRoCE and not on the software device, and "others-differences" has no reason.

function matches(text, glob,	re)
{
	re = glob
	gsub(/[\\.+?|(){}\[\]^$]/, "\\\\&", re)
	gsub(/\*/, ".*", re)
	return text ~ "^(" re ")$"
}

function kind(text)
{
	sub(/:.*$/, "", text)
	return text
}

# the number of the line that explains the difference, or 0
function explained(suite, test, says,	i)
{
	for (i = 1; i <= lines; i++)
		if (suite == d_suite[i] && matches(test, d_test[i]) && matches(says, d_says[i]))
			return i
	return 0
}

function counts(suite, column)
{
	return sprintf("%5d %5d %5d", count[suite, column, "pass"], count[suite, column, "skip"], count[suite, column, "fail"])
}

BEGIN {
	FS = "\t+"
	for (i = 1; i < ARGC; i++) {
		parts = split(ARGV[i], path, "/")
		suite = path[parts]
		if (sub(/\.results$/, "", suite) && !(suite in known)) {
			known[suite] = 1
			suites[++suite_count] = suite
		}
	}
}

FILENAME ~ /\/others-differences$/ {
	if ($0 !~ /^(#|$)/) {
		d_suite[++lines] = $1
		d_test[lines] = $2
		d_says[lines] = $3
		d_why[lines] = $4
	}
	next
}

FNR == 1 {
	parts = split(FILENAME, path, "/")
	column = path[parts - 1]
	suite = path[parts]
	sub(/\.results$/, "", suite)
}

/ \| / {
	test = $0
	sub(/ \| .*$/, "", test)
	says = substr($0, length(test) + 4)
	if (!((suite, test) in row)) {
		row[suite, test] = ++rows
		row_suite[rows] = suite
		row_test[rows] = test
	}
	result[suite, test, column] = says
	count[suite, column, kind(says)]++
}

END {
	printf "%-16s %-19s %s\n", "", "software device", "SoftRoCE"
	printf "%-16s %5s %5s %5s   %5s %5s %5s\n", "suite", "pass", "skip", "fail", "pass", "skip", "fail"
	for (s = 1; s <= suite_count; s++)
		printf "%-16s %s   %s\n", suites[s], counts(suites[s], "soft"), counts(suites[s], "rxe")
	for (r = 1; r <= rows; r++) {
		suite = row_suite[r]
		test = row_test[r]
		for (c = split("soft rxe", columns, " "); c; c--)
			if (!((suite, test, columns[c]) in result))
				result[suite, test, columns[c]] = "not run"
		soft = result[suite, test, "soft"]
		rxe = result[suite, test, "rxe"]
		line = suite ": " test " | " soft " | " rxe
		print line >table
		if (rxe == "pass" && soft != "pass") {
			i = explained(suite, test, soft)
			if (i)
				explains[d_suite[i], d_why[i]]++
			else
				unexplained[++problems] = line
		} else if (kind(soft) != kind(rxe)) {
			only_soft[++others] = line
		}
	}
	print "\nwhat passes over SoftRoCE and not on the software device, by reason:"
	for (i = 1; i <= lines; i++) {
		if (!(d_suite[i] in known) || told[d_suite[i], d_why[i]]++)
			continue
		printf "%4d of %s: %s\n", explains[d_suite[i], d_why[i]], d_suite[i], d_why[i]
	}
	print "\nother differences (software device | SoftRoCE):"
	for (i = 1; i <= others; i++)
		print only_soft[i]
	if (problems) {
		print "\nunexplained (software device | SoftRoCE):"
		for (i = 1; i <= problems; i++)
			print unexplained[i]
		exit 1
	}
	print "\nno unexplained difference"
}
