#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# tls.sh <rpma-keeper> <plugin> -- keeper and plugin over TLS, over IPv6; files that are replaced meanwhile

cd "$(dirname "$0")"
here=$PWD
cd "$OLDPWD"
keeper=$1
plugin=$2
. "$here/common.sh"
PATH=/usr/bin:$PATH
skip_without nbdkit nbdinfo nbdsh python3 openssl

# new_cluster <name>: a CA, and a certificate of it
new_cluster()
{
	local ca=$work/$1-ca node=$work/$1
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$ca.key" -subj "/CN=$1" -x509 -days 2 \
		-out "$ca.pem" 2>/dev/null
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$node.key" -subj "/CN=node" -new \
		-out "$node.csr" 2>/dev/null
	openssl x509 -req -in "$node.csr" -CA "$ca.pem" -CAkey "$ca.key" -days 2 -out "$node.pem" 2>/dev/null
}

# as_node <name> <command...>: with the credentials of that cluster
as_node()
{
	local node=$work/$1
	shift
	SOFTRDMA_TLS_CERT=$node.pem SOFTRDMA_TLS_KEY=$node.key SOFTRDMA_TLS_CA=$node-ca.pem "$@"
}

# copy_node <from>: the files that the keeper reads are those of another cluster from now on
copy_node()
{
	local file
	for file in .pem .key -ca.pem; do
		cp "$work/$1$file" "$work/keeper.new"
		mv "$work/keeper.new" "$work/keeper$file"
	done
}

umask 077
new_cluster one
new_cluster two
copy_node one
uri="nbd+unix:///?socket=$work/s"
# a client that reads one byte, and ends
reads()
{
	# shellcheck disable=SC2016 # nbdkit sets the variable
	nbdkit -U - "$plugin" host=::1 port="$port" name=disk readonly=true --run 'nbdsh -u "$uri" -c "h.pread(1, 0)"' \
		>"$work/reads" 2>&1
}

listen='[::1]'
address=::1
as_node keeper start_keeper --lend "disk=$work/disk,size=1m"
as_node one start_nbdkit "$work/s" name=disk
nbdsh -u "$uri" -c 'h.pwrite(b"secret", 0); h.flush()'
as_node one reads || fail 'a client of the cluster is refused'
! as_node two reads || fail 'a client of another cluster is served'
! reads || fail 'a client without a certificate is served'

# files that cannot be used: all goes on
echo nonsense >"$work/keeper.new"
mv "$work/keeper.new" "$work/keeper.pem"
as_node one reads || fail 'the earlier credentials are no longer in use'

# other files: for new connections, without a signal, while the earlier one goes on; a signal changes nothing
copy_node two
as_node two reads || fail 'the new files are not in use'
kill -HUP "$keeper_pid"
until_true 'a line about SIGHUP' grep -q 'SIGHUP: nothing to do' "$work/keeper.log"
copy_node one
as_node one reads || fail 'files that are replaced after SIGHUP are not in use'
copy_node two
nbdsh -u "$uri" -c 'assert h.pread(6, 0) == b"secret"; h.pwrite(b"public", 0); h.flush()'
as_node two reads || fail 'the new credentials are not in use'
! as_node one reads || fail 'the earlier credentials are still in use'
! grep -q 'connected again' "$work/nbdkit.log" || fail 'an established connection has ended'
end_keeper TERM 0
[[ $(head -c 6 "$work/disk") == public ]] || fail 'the file lacks what was written'
