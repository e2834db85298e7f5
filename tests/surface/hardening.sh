#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# hardening.sh <level of _FORTIFY_SOURCE> <control flow: ON or OFF> <processor> <file>...
#
# The installed files have everything that cmake/Hardening.cmake asks of compiler and linker. A file is a shared library, a
# program or a static library.

set -euo pipefail
fortify=$1 control_flow=$2 processor=$3
shift 3
status=0

# expect <what> <pattern> <text>
expect()
{
	if ! grep -qE "$2" <<<"$3"; then
		echo "$file: $1 is missing"
		status=1
	fi
}

# of the linker, which sees no static library
linked()
{
	local segments dynamic
	segments=$(readelf -lW "$file")
	dynamic=$(readelf -dW "$file")
	expect 'a segment that becomes read-only (relro)' ' GNU_RELRO ' "$segments"
	expect 'a stack without code' ' GNU_STACK .* RW ' "$segments"
	expect 'binding at the start (now)' '\(FLAGS\) .*BIND_NOW|\(FLAGS_1\) .*NOW' "$dynamic"
	if grep -q ' INTERP ' <<<"$segments"; then
		expect 'position independent code (PIE)' '\(FLAGS_1\) .*PIE' "$dynamic"
	fi
}

# The linker drops the mark of the control flow if one file of the system has none, so objects are looked at. The
# instructions of stack clash protection are known on one processor.
compiled()
{
	if [[ $control_flow == ON ]]; then
		expect 'protection of control flow' 'IBT, SHSTK|BTI' "$(readelf -nW "$file")"
	fi
	if [[ $processor == x86_64 ]]; then
		# shellcheck disable=SC2016 # an operand of the assembler
		expect 'a stack frame that grows page by page' 'sub +\$0x1000,%rsp' "$(objdump -d "$file")"
	fi
}

for file in "$@"; do
	symbols=$(readelf -sW "$file")
	expect 'the stack protector' ' UND __stack_chk_fail\b' "$symbols"
	if ((fortify)); then
		expect 'a checked call of libc (_FORTIFY_SOURCE)' ' UND __(snprintf|vsnprintf|mem[a-z]+|poll|ppoll|read|recv|str[a-z]+)_chk\b' "$symbols"
	fi
	case $file in
	*.a) compiled ;;
	*) linked ;;
	esac
	echo "$file: looked at"
done
exit $status
