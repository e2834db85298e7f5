#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# dissector.sh <frames> <1 if there is TLS> -- softrdma.lua names every message, frame and datagram that has left, and finds
# nothing wrong with them: as the device's own decoder reads them, in each direction, however TCP has cut the stream

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
	# the kernel's choice of a port may be one that some other protocol uses
	tshark -n -X "lua_script:$script" -o softrdma.check_records:TRUE -o udp.try_heuristic_first:TRUE -r "$capture" "$@" \
		2>"$work/errors" || {
		cat "$work/errors" >&2
		fail "tshark $*"
	}
	# a mistake in the script is a message there, and no exit status
	if grep -iE 'lua|softrdma' "$work/errors"; then
		fail "tshark says this about the script"
	fi
}

# named <capture> <tshark argument>...: a line for each message and frame: ports, name, number, length; in the order of
# each direction. The answer to RESOLVE, which comes alone, has its queue pair and Q_Key in the place of the number.
named()
{
	show "$@" -T fields -e tcp.srcport -e tcp.dstport -e softrdma.name -e softrdma.seq -e softrdma.length \
		-e softrdma.qp_num -e softrdma.qkey -Y 'softrdma && tcp' |
		awk -F '\t' '{
			n = split($3, name, ",")
			if ($7 != "")
				$4 = $4 $6 "/" $7
			if (split($4, seq, ",") != n || split($5, length_of, ",") != n)
				print "not one number and length for each name:", $0
			for (i = 1; i <= n; i++)
				print $1, $2, name[i], seq[i], length_of[i]
		}' | sort -s -n -k 1,1 -k 2,2
}

# in_order <ledger>: its messages and frames
in_order()
{
	awk '$3 != "DATAGRAM"' "$1" | sort -s -n -k 1,1 -k 2,2
}

# datagrams <capture>: a line for each datagram, as in the ledger
datagrams()
{
	local field fields=(-e udp.srcport -e udp.dstport)
	for field in name length {datagram.flags.{imm,solicited,summed},datagram.{{src,dst}_qp_num,qkey}} imm_data \
		datagram.{traffic_class,hop_limit,flow_label,{src,dst}_gid} gid.{index,addr,port,random} datagram.crc payload; do
		fields+=(-e "softrdma.$field")
	done
	show "$1" -Y 'softrdma && udp' -T fields "${fields[@]}" | awk -F '\t' '
		# later versions of tshark write words
		function bit(shown) { return shown == "True" ? 1 : shown == "False" ? 0 : shown }
		function bytes(shown) { gsub(":", "", shown); return shown == "" ? "-" : shown }
		# only some GIDs have parts
		function parts(gid) {
			if (gid !~ /^fc53:1[0-9a-f][0-9a-f]:/)
				return "-"
			k++
			return at[k] "/" addr[k] "/" port[k] "/" bytes(random[k])
		}
		{
			k = 0
			n = split($17, at, ",")
			split($18, addr, ",")
			split($19, port, ",")
			split($20, random, ",")
			print $1, $2, $3, $4, "imm=" bit($5) ",solicited=" bit($6) ",summed=" bit($7), $8, $9, $10, bytes($11),
				$12, $13, $14, $15, parts($15), $16, parts($16), $21 == "" ? "-" : $21
			if (k != n)
				print "parts of a GID that has none"
			if (length($22 == "" ? "" : bytes($22)) != 2 * $4)
				print "not the payload"
		}'
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
	differences=$(diff <(grep -w DATAGRAM "$capture.ledger") <(datagrams "$capture")) ||
		fail "$name: the datagrams that have left (<) and what is shown (>) differ:"$'\n'"$(head -n 40 <<<"$differences")"
	show "$capture" -Y "$wrong" -V >"$work/wrong"
	[[ ! -s $work/wrong ]] || fail "$name: not everything is right: $(head -n 60 "$work/wrong")"
	echo "$name: $(wc -l <"$capture.ledger") messages, frames and datagrams of $(cut -d ' ' -f 3 "$capture.ledger" | sort -u | wc -l) kinds"
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

# --- datagrams that are not as they should be ---

# The last datagram, which has 64 bytes of payload, immediate data and IPv4. Before its own header are those of the record in
# the file, of IP and of UDP.
headers=$((16 + 20 + 8))
size=$((headers + 68 + 64))

# alone <capture>: puts a file into $work/file, and its one record into $work/record
alone()
{
	tshark -n -r "$1" -Y udp -F pcap -w "$work/datagrams.pcap" 2>/dev/null
	head -c 24 "$work/datagrams.pcap" >"$work/file"
	tail -c "$size" "$work/datagrams.pcap" >"$work/record"
}

# change <offset> <bytes> [<offset> <bytes>...]: adds the record to the file, with other bytes at these offsets of its datagram
change()
{
	cp "$work/record" "$work/changed"
	while (($# > 0)); do
		printf '%b' "$2" | dd of="$work/changed" bs=1 seek=$((headers + $1)) conv=notrunc status=none
		shift 2
	done
	cat "$work/changed" >>"$work/file"
}

alone "$work/whole.pcap"
change 0 S
change 5 '\0013'
change 6 '\0101'
change 11 '\0001'
change 15 '\0001'
change 5 '\0002'
change 26 '\0001'
change 31 '\0001'
change 64 '\0001'
change 4 '\0002'
change 0 X
# one byte less than a header: lengths in the record, IP and UDP
change -36 '\0137' -32 '\0137' -26 '\0000\0137' -4 '\0000\0113'
truncate -s -65 "$work/file"
differences=$(diff - <(show "$work/file" -T fields -E 'separator=|' -e frame.number -e softrdma.name -e _ws.expert.message -Y softrdma) <<-'END'
	1|DATAGRAM|
	2|DATAGRAM|Unknown flags
	3|DATAGRAM|Not the length of the datagram
	4|DATAGRAM|More than 24 bits
	5|DATAGRAM|More than 24 bits
	6|DATAGRAM|Immediate data without its flag
	7|DATAGRAM|Not 0
	8|DATAGRAM|More than 20 bits
	9|DATAGRAM|A check sum without its flag
	12||Nothing of this protocol
	END
) || fail "malformed datagrams: what is wrong (<) and what is shown (>) differ:"$'\n'"$differences"
[[ $(count "$work/file" softrdma.not_understood) == 9 ]] || fail "the filter does not find malformed datagrams"

alone "$work/records.pcap"
change 0 S
change 131 '\0377'
change 40 '\0377'
change 64 '\0000\0000\0000\0000'
[[ $(count "$work/file" softrdma.datagram.crc) == 4 && $(count "$work/file" softrdma.bad_crc) == 3 ]] ||
	fail "damaged datagrams are shown as good ones"

# the capture lacks the end of a packet: the sum is unknown, and nothing is wrong
for length in 127 60; do
	editcap -s "$length" "$work/file" "$work/short.pcap"
	[[ $(count "$work/short.pcap" softrdma) == 4 ]] || fail "datagrams are not shown if only $length bytes are captured"
	[[ $(count "$work/short.pcap" "$wrong") == 0 ]] || fail "datagrams are wrong if only $length bytes are captured"
done
echo "datagrams: 9 malformed ones, 3 damaged ones, some that are not whole in the capture"

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
