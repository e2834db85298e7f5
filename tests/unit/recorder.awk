# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# recorder.awk -- generates a wrapper for each function of the public header that can fail
#
# Reads include/librpma.h through the preprocessor and prints C: __wrap_rpma_x() for each "int rpma_x(...)", which calls
# the function and tells recorder_note() what it returned. See recorder.h.

BEGIN {
	RS = ";"
	print "#include <librpma.h>"
	print ""
	print "#include \"recorder.h\""
}

{
	gsub(/[ \t\n]+/, " ")
}

match($0, /int rpma_[a-z0-9_]+\(.*\)/) {
	prototype = substr($0, RSTART + 4, RLENGTH - 4)
	name = substr(prototype, 1, index(prototype, "(") - 1)
	parameters = substr(prototype, length(name) + 2, length(prototype) - length(name) - 2)
	count = split(parameters, list, ",")
	arguments = ""
	for (i = 1; i <= count; i++) {
		argument = list[i]
		sub(/\[[0-9]*\] *$/, "", argument)
		sub(/^.*[ *]/, "", argument)
		arguments = arguments (i > 1 ? ", " : "") argument
	}
	printf "\nint __real_%s(%s);\nint __wrap_%s(%s);\n\n", name, parameters, name, parameters
	printf "int\n__wrap_%s(%s)\n{\n\tstatic unsigned seen;\n\n", name, parameters
	printf "\treturn recorder_note(\"%s\", __real_%s(%s), &seen);\n}\n", name, name, arguments
}
