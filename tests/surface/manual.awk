# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manual.awk -- what a check needs of pages in doc/manuals
#
#	awk -v part=names -f manual.awk page...      page, function: what the pages' NAME lines list
#	awk -v part=sections -f manual.awk page...   page, titles of its sections
#	awk -v part=errors -f manual.awk page...     function, error: the terms of ERRORS, for all functions of the page that
#	                                             can fail, or for those in parentheses after the error
#	awk -v part=refs -f manual.awk page...       page, name, section: **name**(section), wherever it stands
#	awk -v part=table -f manual.awk page         function, class, case: the rows under THREAD SAFETY
#	awk -v part=synopsis -f manual.awk page      the code blocks of SYNOPSIS
#	awk -v part=code -v number=1 -f manual.awk page
#	                                             the first, ... of all other code blocks in C

FNR == 1 {
	page = FILENAME
	sub(/^.*\//, "", page)
	sub(/\.md$/, "", page)
	section = ""
	in_code = functions = 0
	in_head = 1
	next
}

# the head, in YAML
in_head {
	in_head = !/^---$/
	next
}

/^```/ {
	in_code = /^```c$/
	if (in_code && section != "SYNOPSIS")
		blocks++
	next
}

in_code {
	if (part == "synopsis" && section == "SYNOPSIS")
		print
	if (part == "code" && section != "SYNOPSIS" && blocks == number)
		print
	# a function that returns int can fail
	if (section == "SYNOPSIS" && match($0, /^int rpma_[a-z0-9_]+\(/))
		can_fail[page, ++functions] = substr($0, 5, RLENGTH - 5)
	next
}

/^# / {
	section = substr($0, 3)
	if (part == "sections")
		print page, section
	next
}

section == "NAME" && / - / {
	if (part == "names") {
		sub(/ - .*/, "")
		count = split($0, list, ", ")
		for (i = 1; i <= count; i++)
			print page, list[i]
	}
	next
}

section == "ERRORS" && match($0, /^\*\*RPMA_E_[A-Z_]+\*\*/) {
	if (part == "errors") {
		error = substr($0, 3, RLENGTH - 4)
		rest = substr($0, RLENGTH + 1)
		named = 0
		while (match(rest, /\*\*rpma_[a-z0-9_]+\*\*/)) {
			print substr(rest, RSTART + 2, RLENGTH - 4), error
			rest = substr(rest, RSTART + RLENGTH)
			named = 1
		}
		for (i = 1; i <= functions && !named; i++)
			print can_fail[page, i], error
	}
	next
}

section == "THREAD SAFETY" && /^\| \*\*/ {
	if (part == "table") {
		gsub(/[|*]/, "")
		$1 = $1
		print
	}
}

part == "refs" {
	rest = $0
	while (match(rest, /\*\*[A-Za-z0-9_.-]+\*\*\([1-8]\)/)) {
		ref = substr(rest, RSTART + 2, RLENGTH - 5)
		print page, substr(ref, 1, length(ref) - 2), substr(rest, RSTART + RLENGTH - 2, 1)
		rest = substr(rest, RSTART + RLENGTH)
	}
}
