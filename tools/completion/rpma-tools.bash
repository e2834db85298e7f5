# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# rpma-tools.bash -- completion by bash of the options of rpma-perf, rpma-info and rpma-keeper
#
# The options are those that the program itself lists by --help, so that they fit the program that is installed.

_rpma_tools()
{
	local program=$1 current=$2 before=$3 words=''

	COMPREPLY=()
	case $before in
	--op) words='write read send write-with-imm atomic-write cas write+flush write_flush ping-pong' ;;
	--flush-type) words='visibility persistent' ;;
	--wait) words='poll cq_wait fd' ;;
	--target-waits) words='poll cq_wait fd pause' ;;
	--device) words='auto rdma soft' ;;
	--memory | --report | --path | --status)
		compopt -o filenames 2>/dev/null || true # outside of a completion, as in a test
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	*)
		if [[ $current == -* ]]; then
			words=$("$program" --help 2>/dev/null | grep -oE '(^|[ ,[])--[a-z][a-z-]*' | grep -oE -- '--[a-z-]+')
		elif ((COMP_CWORD == 1)) && [[ ${program##*/} == rpma-perf ]]; then
			words='server client local'
		fi
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current" | sort -u)
}
complete -F _rpma_tools rpma-perf rpma-info rpma-keeper
