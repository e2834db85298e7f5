#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# manuals.sh <project> [<program of threads.c>]
#
# One list of names, in four places: the map exports the functions that the header declares; each has a unit test, and a
# page in section 3 of the manual, whose NAME lists it. All pages of section 3 have the same sections. Whatever a page
# refers to exists. The program tests what librpma(7) says about threads. ENVIRONMENT lists the variables that the
# sources read.

set -euo pipefail
here=$(realpath "$(dirname "$0")")
cd "$1"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
failed=false

part()
{
	awk -v "part=$1" -f "$here/manual.awk" "${@:2}"
}

# complain <what> <list>: the list should be empty
complain()
{
	if [[ $2 ]]; then
		printf '%s:\n%s\n' "$1" "$2"
		failed=true
	fi
}

gcc -fsyntax-only -aux-info "$dir/prototypes" -x c include/librpma.h
sed -n 's|^/\* include/librpma.h:.*\*/ extern .*[ *]\(rpma_[a-z0-9_]*\) (.*$|\1|p' "$dir/prototypes" | sort -u >"$dir/header"
awk '/^\t\t[a-z].*;$/ { sub(";", ""); print $1 }' src/librpma.map | sort -u >"$dir/map"
diff -u --label include/librpma.h --label src/librpma.map "$dir/header" "$dir/map"
complain 'no unit test names' "$(comm -23 "$dir/map" <(grep -oh '\brpma_[a-z0-9_]*' tests/unit/*.c | sort -u))"

# names
part names doc/manuals/*.md >"$dir/names"
grep '\.3 ' "$dir/names" | cut -d' ' -f2 | sort >"$dir/manuals"
complain 'without a manual' "$(comm -23 "$dir/map" <(uniq "$dir/manuals"))"
complain 'a manual of what does not exist' "$(comm -13 "$dir/map" <(uniq "$dir/manuals"))"
complain 'in two manuals' "$(uniq -d "$dir/manuals")"
complain 'a page that does not list its own name' \
	"$(comm -23 <(cd doc/manuals && printf '%s\n' *.md | sed 's/\.[0-9]\.md$//' | sort) \
		<(cut -d' ' -f2 "$dir/names" | sort))"

# sections
part sections doc/manuals/*.3.md >"$dir/sections"
for page in doc/manuals/*.3.md; do
	found=$(grep "^$(basename "$page" .md) " "$dir/sections" | cut -d' ' -f2- | paste -sd,)
	[[ $found == 'NAME,SYNOPSIS,DESCRIPTION,RETURN VALUE,ERRORS,THREAD SAFETY,EXAMPLE,SEE ALSO' ]] ||
		complain "$page has other sections" "$found"
done

# references: ours must be in the list above, all others in this one
others=(
	'eventfd(2)' 'exit(3)' 'ipv6(7)' 'mremap(2)' 'ppoll(2)' 'rdma_bind_addr(3)' 'rdma_destroy_id(3)' 'rdma_disconnect(3)' 'rdma_getaddrinfo(3)' 'read(2)'
	'epoll(7)' 'exec(3)' 'fcntl(2)' 'flock(2)' 'fork(2)' 'fsync(2)' 'dlopen(3)' 'getaddrinfo(3)' 'ibv_advise_mr(3)'
	'ibv_close_device(3)' 'ibv_create_cq_ex(3)' 'ibv_create_qp(3)' 'ibv_dereg_mr(3)' 'ibv_destroy_qp(3)' 'ibv_fork_init(3)' 'ibv_get_cq_event(3)'
	'ibv_modify_qp(3)' 'ibv_poll_cq(3)' 'ibv_query_device_ex(3)' 'ibv_reg_mr(3)' 'ibv_wr_start(3)' 'ld.so(8)'
	'ldconfig(8)' 'md(4)' 'msync(2)' 'nbd-client(8)' 'nbdkit(1)' 'nbdkit-plugin(3)' 'ntohl(3)' 'open(2)' 'poll(2)' 'printf(3)' 'pthread_cancel(3)' 'pthread_setcanceltype(3)' 'pthreads(7)' 'process_vm_writev(2)' 'rdma_cm(7)'
	'rename(2)' 'rdma_accept(3)' 'rdma_connect(3)' 'rdma_create_ep(3)' 'rdma_create_qp(3)' 'rdma_establish(3)' 'rdma_get_cm_event(3)' 'rdma_listen(3)' 'rdma_reject(3)' 'rdma_set_option(3)' 'rping(1)' 'secure_getenv(3)' 'setenv(3)' 'siglongjmp(3)' 'signal(7)' 'sysctl(8)'
	'syslog(3)' 'tcp(7)'
)
{
	printf '%s\n' "${others[@]}"
	sed 's/^.*\.\([0-9]\) \(.*\)$/\2(\1)/' "$dir/names"
} | sort -u >"$dir/targets"
part refs doc/manuals/*.md | sed 's/^.* \(.*\) \(.*\)$/\1(\2)/' | sort -u >"$dir/refs"
complain 'a reference to a page that is not there' "$(comm -23 "$dir/refs" "$dir/targets")"
complain 'a page of others that nothing refers to' "$(comm -13 "$dir/refs" <(printf '%s\n' "${others[@]}" | sort -u))"

# environment: the variables that the sources read, and those that ENVIRONMENT explains. Those of the device are in its list,
# with that of softrdma-run, which has a page of its own.
{
	grep -rhoE 'secure_getenv\("[A-Z_]+"' src | sed 's/^.*"\(.*\)"$/\1/'
	sed -n 's/^\t{ "\(SOFTRDMA_[A-Z_]*\)", 0 },$/\1/p' src/softrdma/base/variables.c | grep -vx SOFTRDMA_LIBRARY
} | sort -u >"$dir/asked"
awk '/^# / { inside = /^# ENVIRONMENT$/ } inside' doc/manuals/librpma.7.md doc/manuals/softrdma.7.md |
	sed -n 's/^\*\*\([A-Z_]*\)\*\*$/\1/p' | sort -u >"$dir/explained"
diff -u --label 'variables in src' --label 'ENVIRONMENT of the manuals' "$dir/asked" "$dir/explained" || failed=true

# threads
if (($# > 1)); then
	part table doc/manuals/librpma.7.md | sort >"$dir/table"
	"$2" --list | sort >"$dir/tested"
	diff -u --label librpma.7.md --label threads.c "$dir/table" "$dir/tested" || failed=true
	cut -d' ' -f1 "$dir/table" | diff -u --label src/librpma.map --label 'the table of librpma.7.md' "$dir/map" - || failed=true
fi

echo "$(wc -l <"$dir/map") names in header and map, $(comm -12 "$dir/map" "$dir/manuals" | wc -l) of them with a manual"
! $failed
