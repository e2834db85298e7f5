# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# header-errors.awk include/librpma.h -- prints function, error: the errors that the comment above a prototype names.
# "As rpma_x", "as rpma_x" and "rpma_x of ... As that" add the errors of that function.

/^\/\*/ {
	comment = ""
	in_comment = 1
}

in_comment {
	comment = comment " " $0
	if (/\*\//)
		in_comment = 0
	next
}

# the comment of a group belongs to its first function only
/^$/ {
	comment = ""
}

match($0, /^int rpma_[a-z0-9_]+\(/) {
	name = substr($0, 5, RLENGTH - 5)
	names[++count] = name
	comments[name] = comment
}

function take(name, comment, depth,    rest, other)
{
	for (rest = comment; match(rest, /RPMA_E_[A-Z_]+/); rest = substr(rest, RSTART + RLENGTH))
		print name, substr(rest, RSTART, RLENGTH)
	if (depth == 0)
		return
	rest = comment
	while (match(rest, /[Aa]s rpma_[a-z0-9_]+/)) {
		other = substr(rest, RSTART + 3, RLENGTH - 3)
		rest = substr(rest, RSTART + RLENGTH) # before the call, which changes RSTART
		take(name, comments[other], depth - 1)
	}
	if (comment ~ /As that/ && match(comment, /rpma_[a-z0-9_]+/))
		take(name, comments[substr(comment, RSTART, RLENGTH)], depth - 1)
}

END {
	for (i = 1; i <= count; i++)
		take(names[i], comments[names[i]], 2)
}
