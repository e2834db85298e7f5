#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# dissector.sh <frames> <1 if there is TLS> -- softrdma.lua names every message and frame that has left, and finds nothing
# wrong with them: as the device's own decoder reads them, in each direction, however TCP has cut the stream

set -euo pipefail
frames=$1 have_tls=$2
here=$(cd "$(dirname "$0")" && pwd)
script=$here/../../tools/wireshark/softrdma.lua

command -v tshark >/dev/null || {
	echo "SKIPPED: tshark is not installed"
	exit 77
}
work=$(mktemp -d "$PWD/wireshark-XXXXXX")
trap 'rm -rf "$work"' EXIT
# nothing of the user who runs the test
export HOME=$work XDG_CONFIG_HOME=$work

fail()
{
	echo "FAILED: $*" >&2
	exit 1
}

# show <capture> <tshark argument>...
show()
{
	local capture=$1
	shift
	tshark -n -X "lua_script:$script" -o softrdma.check_records:TRUE -r "$capture" "$@" 2>"$work/errors" || {
		cat "$work/errors" >&2
		fail "tshark $*"
	}
	# a mistake in the script is a message there, and no exit status
	if grep -iE 'lua|softrdma' "$work/errors"; then
		fail "tshark says this about the script"
	fi
}

# named <capture> <tshark argument>...: a line for each message and frame: ports, name, number, length; in the order of
# each direction
named()
{
	show "$@" -T fields -e tcp.srcport -e tcp.dstport -e softrdma.name -e softrdma.seq -e softrdma.length -Y softrdma |
		awk -F '\t' '{
			n = split($3, name, ",")
			if (split($4, seq, ",") != n || split($5, length_of, ",") != n)
				print "not one number and length for each name:", $0
			for (i = 1; i <= n; i++)
				print $1, $2, name[i], seq[i], length_of[i]
		}' | sort -s -n -k 1,1 -k 2,2
}

# in_order <ledger>
in_order()
{
	sort -s -n -k 1,1 -k 2,2 "$1"
}

# count <capture> <display filter> [tshark argument]...: how many packets
count()
{
	local capture=$1 filter=$2
	shift 2
	show "$capture" "$@" -Y "$filter" -T fields -e frame.number | wc -l
}

wrong='_ws.malformed || softrdma.bad_crc || softrdma.not_understood || _ws.lua'

# check <name> <command...>: makes a capture, and compares
check()
{
	local name=$1 capture=$work/$1.pcap differences
	shift
	"$@" --file "$capture" || fail "$*"
	differences=$(diff <(in_order "$capture.ledger") <(named "$capture")) ||
		fail "$name: what has left (<) and what is shown (>) differ:"$'\n'"$(head -n 40 <<<"$differences")"
	show "$capture" -Y "$wrong" -V >"$work/wrong"
	[[ ! -s $work/wrong ]] || fail "$name: not everything is right: $(head -n 60 "$work/wrong")"
	echo "$name: $(wc -l <"$capture.ledger") messages and frames of $(cut -d ' ' -f 3 "$capture.ledger" | sort -u | wc -l) kinds"
}

check whole "$frames"
check cut "$frames" --segment 61
check records env SOFTRDMA_CRC=1 "$frames"
check records-cut env SOFTRDMA_CRC=1 "$frames" --segment 997
check same-host env SOFTRDMA_SAME_HOST=1 "$frames"

# records are records: that capture differs from the first in more than its numbers
[[ $(count "$work/records.pcap" softrdma.record.number) -gt 20 ]] || fail "no records are shown"
[[ $(count "$work/whole.pcap" softrdma.record.number) == 0 ]] || fail "records are shown where there are none"

# the last byte of the last record is another one
cp "$work/records.pcap" "$work/damaged.pcap"
printf '\377' | dd of="$work/damaged.pcap" bs=1 seek=$(($(stat -c %s "$work/damaged.pcap") - 1)) conv=notrunc status=none
[[ $(count "$work/damaged.pcap" softrdma.bad_crc) == 1 ]] || fail "a damaged record is shown as a good one"

# a connection whose beginning is missing: nothing is known of it but the port
read -r _ port _ <"$work/whole.pcap.ledger"
tshark -n -r "$work/whole.pcap" -Y 'tcp.stream == 0 && frame.number > 5' -w "$work/middle.pcap" 2>/dev/null
[[ $(count "$work/middle.pcap" softrdma) == 0 ]] || fail "a connection is recognized by nothing"
differences=$(diff <(in_order "$work/whole.pcap.ledger" | awk -v port="$port" '($1 == port || $2 == port) && $3 !~ /^(CONNECT|ACCEPT)$/') \
	<(named "$work/middle.pcap" -o "softrdma.ports:$port")) ||
	fail "from the middle: what has left (<) and what is shown (>) differ:"$'\n'"$(head -n 40 <<<"$differences")"
echo "from the middle: $(named "$work/middle.pcap" -o "softrdma.ports:$port" | wc -l) frames"

# TLS is not looked into, and is not taken for anything else
if [[ $have_tls == 1 ]]; then
	status=0
	"$here/../lib/with-certificates" "$frames" --opaque --file "$work/tls.pcap" || status=$?
	((status == 0 || status == 77)) || fail "over TLS: status $status"
	if ((status == 0)); then
		ports=$(show "$work/tls.pcap" -T fields -e tcp.dstport -Y 'tcp.flags.syn == 1 && tcp.flags.ack == 0' | sort -u | paste -sd ,)
		for option in '' "$ports"; do
			[[ $(count "$work/tls.pcap" tls.handshake -o "softrdma.ports:$option") -gt 4 ]] || fail "TLS is not shown as TLS"
			[[ $(count "$work/tls.pcap" "softrdma || $wrong" -o "softrdma.ports:$option") == 0 ]] || fail "something is seen inside TLS"
		done
		echo "TLS: nothing is seen inside"
	fi
fi
