# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# tables.awk -- makes the tables of "tables": reads "differences", then the driver's output for each column
#
# Exit status 1 if a scenario failed, is missing in a column, or was skipped for a reason that "differences" does not
# list for this column and scenario.

function matches(text, glob,	re)
{
	re = glob
	gsub(/[.+(){}\[\]^$]/, "\\\\&", re)
	gsub(/\*/, ".*", re)
	return text ~ "^(" re ")$"
}

function is_explained(col, scenario, why,	i)
{
	for (i = 1; i <= differences; i++)
		if (matches(col, d_column[i]) && matches(scenario, d_scenario[i]) && why == d_why[i])
			return 1
	return 0
}

# a letter for each reason; the driver may have received the reason from both roles
function letter(why)
{
	if (!(why in letters)) {
		letters[why] = substr("abcdefghijklmnopqrstuvwxyz", ++reasons, 1)
		reason[reasons] = why
	}
	return letters[why]
}

function unexplained(text)
{
	problem[++problems] = text
}

BEGIN {
	FS = "\t+"
}

FILENAME ~ /\/differences$/ {
	if ($0 !~ /^(#|$)/) {
		d_column[++differences] = $1
		d_scenario[differences] = $2
		d_why[differences] = $3
	}
	next
}

FNR == 1 {
	column = FILENAME
	sub(/.*\/[0-9]+-/, "", column)
	sub(/\.tap$/, "", column)
	sub(/,/, " ", column)
	columns[++count] = column
}

{
	sub(/\r$/, "")
}

/^(not )?ok [0-9]+ - / {
	line = $0
	failed = line ~ /^not /
	sub(/^(not )?ok [0-9]+ - /, "", line)
	name = line
	sub(/ .*/, "", name)
	if (!(name in row)) {
		row[name] = ++rows
		scenario[rows] = name
	}
	why = ""
	if (match(line, / # (SKIPPED|FAILED) /)) {
		why = substr(line, RSTART + RLENGTH)
	}
	if (failed) {
		result[name, column] = "FAILED"
		unexplained(column ": " name ": " why)
		total[column, "failed"]++
	} else if (why != "") {
		half = substr(why, 1, (length(why) - 1) / 2)
		if (why == half ";" half)
			why = half
		result[name, column] = "-" letter(why)
		if (!is_explained(column, name, why))
			unexplained(column ": " name ": skipped, and \"differences\" does not say so: " why)
		total[column, "skipped"]++
	} else {
		result[name, column] = "ok"
		total[column, "passed"]++
	}
}

# the driver completed
/^1\.\.[0-9]+$/ {
	ended[column] = 1
}

END {
	width = 46
	for (part = 1; part <= 2; part++) {
		printf "%-" width "s", part == 1 ? "" : "scenario"
		for (c = 1; c <= count; c++) {
			text = columns[c]
			form = text
			sub(/.* /, "", form)
			sub(/ [^ ]*$/, "", text)
			printf " %-10s", part == 1 ? text : form
		}
		print ""
	}
	for (r = 1; r <= rows; r++) {
		printf "%-" width "s", scenario[r]
		for (c = 1; c <= count; c++) {
			if (!((scenario[r], columns[c]) in result)) {
				result[scenario[r], columns[c]] = "MISSING"
				unexplained(columns[c] ": " scenario[r] ": is missing")
			}
			printf " %-10s", result[scenario[r], columns[c]]
		}
		print ""
	}
	split("passed skipped failed", kinds, " ")
	for (k = 1; k <= 3; k++) {
		printf "%-" width "s", kinds[k]
		for (c = 1; c <= count; c++)
			printf " %-10d", total[columns[c], kinds[k]]
		print ""
	}
	for (c = 1; c <= count; c++)
		if (!ended[columns[c]] || !total[columns[c], "passed"])
			unexplained(columns[c] ": the driver did not come to its end, or nothing passed")
	print ""
	for (i = 1; i <= reasons; i++)
		print "-" substr("abcdefghijklmnopqrstuvwxyz", i, 1) "  " reason[i]
	if (problems) {
		print "\nfailed or unexplained:"
		for (i = 1; i <= problems; i++)
			print problem[i]
		exit 1
	}
	print "\nno unexplained difference"
}
