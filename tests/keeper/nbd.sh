#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# nbd.sh <rpma-keeper> <plugin> <part> -- programs of others use nbdkit-rpma-plugin: nbdsh, copy, fio or killed
#
# FIO_SECONDS in the environment is the time of each fio; 4 unless given.

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
keeper=$1
plugin=$2
part=$3
seconds=${FIO_SECONDS:-4}
. "$here/common.sh"
skip_without nbdkit nbdinfo python3

size=$((64 << 20))
disk=$work/disk
uri="nbd+unix:///?socket=$work/s"

# nbdkit's own view of the plugin, and libnbd's: sizes, flags, each request
part_nbdsh()
{
	# Debian's python3, which has the module; another one may come first
	PATH=/usr/bin:$PATH
	skip_without nbdsh
	head -c 1048576 /dev/zero >"$work/kept"
	start_keeper --lend "disk=$disk,size=$size" --lend "gone=dram:,size=1m" --lend "kept=$work/kept,ro"
	# --help and the manual have the same parameters
	diff <(nbdkit "$plugin" --help | grep -oE '^[a-z]+=' | sort) \
		<(sed '/^# DURABILITY/,$d' "$here/../../doc/manuals/nbdkit-rpma-plugin.1.md" | sed -n '/^# PARAMETERS/,$p' |
			grep -E '^\*\*[a-z]+=' | grep -oE '\*\*[a-z]+=' | tr -d '*' | sort) || fail 'parameters differ'
	# wrong parameters
	local text
	while IFS='|' read -r text parameters; do
		# shellcheck disable=SC2086 # the parameters are words
		expect 1 "$text" nbdkit -f -U "$work/refused" "$plugin" $parameters --run true
	done <<-END
		host= is missing|name=disk
		name= is missing|host=$address
		a name has at most|host=$address name=a/b
		is no parameter|host=$address name=disk colour=red
		from 1 to|host=$address name=disk timeout=0
		at least 1M|host=$address name=disk journal=1000
		is for writing|host=$address name=disk readonly=true takeover=true
		is for writing|-r host=$address name=disk takeover=true
		nothing is lent under this name|host=$address port=$port name=nothing
		volatile=true accepts that|host=$address port=$port name=gone
		does rpma-keeper listen at $address port 1|host=$address port=1 name=disk
	END
	# shellcheck disable=SC2016 # nbdkit sets the variable
	nbdkit -U - "$plugin" host="$address" port="$port" name=gone volatile=true --run 'nbdinfo --size "$uri"' |
		grep -qx 1048576 || fail 'volatile memory is not served'
	# refused before nbdkit forks: afterwards its caller would not learn of it, and --run would wait for ever
	expect 1 'readonly=true reads it' timeout 60 nbdkit -U "$work/refused" "$plugin" host="$address" port="$port" name=kept --run true
	# shellcheck disable=SC2016
	nbdkit -U - "$plugin" host="$address" port="$port" name=kept readonly=true --run 'nbdinfo --size "$uri"' |
		grep -qx 1048576 || fail 'memory that is lent for reading only is not served to a reader'
	# with -r it is a reader, which may read such memory too
	# shellcheck disable=SC2016
	nbdkit -r -U - "$plugin" host="$address" port="$port" name=gone \
		--run 'nbdsh -u "$uri" -c "assert h.is_read_only() and not h.can_flush() and h.pread(9, 0) == bytearray(9)"' || fail 'a reader is refused'
	start_nbdkit "$work/s" name=disk
	# and leaves the memory to the writer
	# shellcheck disable=SC2016
	nbdkit -fr -U - "$plugin" host="$address" port="$port" name=disk --run 'nbdsh -u "$uri" -c "h.pread(9, 0)"' ||
		fail 'a reader is refused beside a writer'
	expect 1 "takeover=true takes it" nbdkit -f -U "$work/refused" "$plugin" host="$address" port="$port" name=disk --run true
	nbdsh -u "$uri" -c - <<-'END'
		import errno, os
		size = h.get_size()
		assert size == 64 << 20, size
		assert h.can_multi_conn() and h.can_fua() and h.can_flush() and h.can_zero() and h.can_trim()
		assert not h.is_read_only() and not h.is_rotational()
		assert h.get_block_size(nbd.SIZE_PREFERRED) == 4096
		data = os.urandom(3 << 20)
		h.pwrite(data, 12345)
		assert h.pread(len(data), 12345) == data
		h.flush()
		h.zero(1 << 20, 20000, nbd.CMD_FLAG_FUA)
		h.trim(4096, 12345)
		assert h.pread(1 << 20, 20000) == bytearray(1 << 20)
		assert h.pread(4096, 12345) == bytearray(4096)
		end = 20000 + (1 << 20)
		assert h.pread(12345 + len(data) - end, end) == data[end - 12345:]
		h.pwrite(b"x", size - 1, nbd.CMD_FLAG_FUA)
		assert h.pread(1, size - 1) == b"x"
		# many requests in flight, on two connections; a flush on one covers the other
		g = nbd.NBD()
		g.connect_uri(h.get_uri())
		buffers = [nbd.Buffer.from_bytearray(bytearray(os.urandom(4096))) for i in range(256)]
		for handle in (h, g):
		    errors = []
		    for i, b in enumerate(buffers):
		        handle.aio_pwrite(b, i * 8192, completion=lambda e: errors.append(e.value) or 1)
		    while handle.aio_in_flight() > 0:
		        handle.poll(-1)
		    assert errors == [0] * len(buffers), errors
		h.flush()
		for i, b in enumerate(buffers):
		    assert g.pread(4096, i * 8192) == b.to_bytearray()
	END
	# written at most once a second
	until_true 'the status names the client' has_status '.clients == 1 and .lends[0].name == "disk" and .lends[0].lent_for_writing and (.lends[0].persistence == "pages")
		and .lends[1].persistence == "none" and .lends[0].clients[0].writes and .lends[0].clients[0].established
		and .lends[0].holder == .lends[0].clients[0] and .lends[0].readers == 0 and .lends[1].holder == null
		and (.lends[0] | .failed or .unrevoked | not)'
	# another nbdkit takes over; the first one fails, and says why
	start_nbdkit "$work/t" name=disk takeover=true
	nbdsh -u "$uri" -c 'try:
    h.pwrite(b"late", 0)
    raise SystemExit("a client that lost the memory can write")
except nbd.Error as e:
    assert e.errno == "EIO", e'
	grep -q 'another client had the memory for writing meanwhile' "$work/nbdkit.log" || fail 'the reason is not logged'
	nbdsh -u "nbd+unix:///?socket=$work/t" -c 'h.pwrite(b"mine", 0); h.flush(); assert h.pread(4, 0) == b"mine"'
	until_true 'the status counts' has_status '.served | .reads > 10 and .writes > 500 and .flushes > 2 and .refused == 0
		and .bytes_written > 3000000 and .flush_seconds > 0'
	end_keeper TERM 0
}

# whole images, by nbdcopy and by qemu
part_copy()
{
	skip_without nbdcopy qemu-io qemu-img
	start_keeper --lend "disk=$disk,size=$size"
	head -c "$size" /dev/urandom >"$work/image"
	start_nbdkit "$work/s" name=disk
	nbdcopy --flush "$work/image" "$uri"
	cmp "$work/image" "$disk"
	nbdcopy "$uri" - | cmp - "$work/image"
	qemu-img compare -f raw -F raw "$work/image" "$uri" >/dev/null
	qemu-io -f raw "$uri" -c 'write -P 0xaa 0 64k' -c 'write -f -P 0xbb 1M 2M' -c 'write -z 16M 1M' \
		-c 'discard 20M 64k' -c 'flush' -c 'read -P 0xaa 0 64k' -c 'read -P 0xbb 1M 2M' -c 'read -P 0 16M 1M' \
		-c 'aio_write -P 0xcc 30M 4k' -c 'aio_write -P 0xcd 31M 1M' -c 'aio_flush' -c 'read -P 0xcc 30M 4k' \
		-c 'read -P 0xcd 31M 1M' >"$work/qemu"
	! grep -i -q 'fail\|mismatch' "$work/qemu" || fail "qemu-io: $(cat "$work/qemu")"
	! qemu-img compare -f raw -F raw "$work/image" "$uri" >/dev/null || fail 'the images should differ'
	qemu-img compare -f raw -F raw "$disk" "$uri" >/dev/null
	end_keeper TERM 0
}

verifying_fio()
{
	fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --size=16m --iodepth=16 --numjobs=4 \
		--offset_increment=16m --verify=crc32c --verify_backlog=512 \
		--verify_fatal=1 --fsync=32 --time_based --runtime="$seconds" --output="$work/fio" "$@" ||
		fail "fio: $(cat "$work/fio" "$work/nbdkit.log")"
}

# random writes that fio reads back and verifies
part_fio()
{
	skip_without fio
	start_keeper --lend "disk=$disk,size=$size"
	start_nbdkit "$work/s" name=disk
	verifying_fio
	end_keeper TERM 0
}

# has_connected_again <times>: true if the plugin has done that this number of times
has_connected_again()
{
	(($(grep -c 'connected again' "$work/nbdkit.log") >= $1))
}

# the same, while the keeper is killed and started again
part_killed()
{
	skip_without fio
	local fio i
	start_keeper --lend "disk=$disk,size=$size"
	start_nbdkit "$work/s" name=disk
	verifying_fio --runtime=$((2 * seconds + 4)) &
	fio=$!
	started+=("$fio")
	for ((i = 0; i < seconds; i++)); do
		sleep 0.8
		end_keeper KILL 137
		start_keeper --lend "disk=$disk,size=$size"
		until_true "the plugin is connected again: $i" has_connected_again "$((i + 1))"
	done
	wait "$fio" || fail 'fio has failed'
	end_keeper TERM 0
}

"part_$part"
