# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash
# shellcheck disable=SC2034 # variables for the scripts that source this

# machine.sh -- the virtual machines of the lab; to be sourced by the scripts that start some
#
# A machine has a folder on the host, which is /results in the guest. The files in it are its orders: kernel, mode,
# command, and perhaps address, has-disk (a disk instead of the RDMA device and the NVDIMMs) or soft (nothing in their
# place). The machine adds versions, status, kernel.log, output.log.

readonly exit_skipped=77 exit_deadline=124 exit_lab=125

lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$lab/../.." && pwd)
cache=$lab/.cache
root=$cache/root
deadline=${LAB_DEADLINE-1800} # of a machine, in seconds
accelerator=()
processors=2
niceness=${LAB_NICE-19} # that of the machines

# shellcheck source=SCRIPTDIR/../../utils/install-packages.sh
. "$project/utils/install-packages.sh"
# shellcheck source=SCRIPTDIR/prepare.sh
. "$lab/prepare.sh"

# the comment at the head of the script
usage()
{
	sed -n '4,/^$/s/^#[ ]\?//p' "$0"
	exit "$1"
}

skip()
{
	echo "SKIPPED: tests/lab: $1"
	exit $exit_skipped
}

fail()
{
	echo "tests/lab: $1" >&2
	exit $exit_lab
}

is_number()
{
	[[ $1 =~ ^[1-9][0-9]{0,8}$ ]]
}

# lock_lab: locks the lab until this script ends; a script that another script of the lab starts inherits the lock
lock_lab()
{
	local reason
	((EUID == 0)) || skip "needs root, to make a root file system and to work in it"
	reason=$(reason_not_to_run)
	[[ -z $reason ]] || skip "$reason"
	[[ -z ${LAB_IS_OPEN-} ]] || return 0

	mkdir -p "$cache"
	exec {lock}>"$cache/lock"
	if ! flock -n "$lock"; then
		echo "tests/lab: waiting for another run to end"
		flock "$lock"
	fi
}

# open_lab <kernel...>: prepares everything that machines with these kernels need
open_lab()
{
	local kernel
	lock_lab
	for kernel in "$@"; do
		if [[ ! -e $root/.made ]] || ! is_prepared "$kernel"; then
			can_fetch || skip "needs the network, for Debian's packages: $(tail -n 1 "$cache/network.log")"
			break
		fi
	done
	if [[ -z ${LAB_IS_OPEN-} ]]; then
		install_packages "${lab_packages[@]}"
		make_root
		copy_project
		logged "build of the project" build_project
		export LAB_IS_OPEN=yes
	fi
	for kernel in "$@"; do
		prepare_kernel "$kernel"
	done
}

# new_run <name>: makes a folder for the results, in $run; only the newest ones are kept
new_run()
{
	mkdir -p "$cache/runs"
	find "$cache/runs" -mindepth 1 -maxdepth 1 -type d | sort | head -n -20 | xargs -r rm -rf
	run=$(mktemp -d "$cache/runs/$(date +%Y%m%d-%H%M%S)-$1-XXXX")
}

# write_orders <folder> <kernel> <mode> <command...>
write_orders()
{
	local out=$1
	echo "$2" >"$out/kernel"
	echo "$3" >"$out/mode"
	shift 3
	printf '%q ' "$@" >"$out/command"
}

# find_accelerator <folder> <kernel>: chooses the emulator's accelerator, in $accelerator: KVM if that works here. The
# device node may exist although the emulator aborts, or hangs when the kernel unpacks itself. So this very kernel is
# started, up to its first process. Without KVM one thread runs the guest's processors by turns: with a thread for each,
# QEMU before 8.1 may execute an instruction of the guest's kernel while another processor replaces it (mended there by
# commit deba78709ae8), and the guest dies or hangs. Two hosts on two processors are also faster with a thread for each host.
find_accelerator()
{
	local out=$1 kernel=$2
	((${#accelerator[@]} == 0)) || return 0
	# otherwise the shell would report that it was killed
	{ timeout --signal=KILL 2 qemu-system-x86_64 -accel kvm -cpu host -machine pc -m 1G -nodefaults -no-user-config \
		-display none -no-reboot -kernel "$cache/kernels/$kernel/vmlinuz" \
		-initrd "$cache/kernels/$kernel/initramfs" -append 'console=ttyS0 panic=-1 quiet lab.trial' \
		-serial "file:$out/trial.log" >/dev/null </dev/null || true; } 2>/dev/null
	if grep -q 'lab: trial passed' "$out/trial.log" 2>/dev/null; then
		accelerator=(-accel kvm -cpu host)
	else
		accelerator=(-accel 'tcg,thread=single' -cpu max)
	fi
	rm -f "$out/trial.log"
}

# count_instructions: one processor, whose clock counts its instructions, a nanosecond each. Time then depends only on
# the instructions executed, not on the load of this host.
count_instructions()
{
	accelerator=(-accel 'tcg,thread=single' -icount 'shift=0,sleep=off' -cpu max)
	processors=1
}

# describe_machine <folder> <kernel> <options...>: sets the emulator's arguments in $machine, with those that all
# machines share. The options give memory, network and devices. The guest's console is the emulator's standard input and
# output.
describe_machine()
{
	local out=$1 kernel=$2
	shift 2
	find_accelerator "$out" "$kernel"
	# shellcheck disable=SC2054 # the commas are the emulator's
	# no_timer_check: on a busy host the guest's kernel may miss timer ticks, and would panic
	machine=(
		qemu-system-x86_64 "${accelerator[@]}" -nodefaults -no-user-config -display none -no-reboot
		-kernel "$cache/kernels/$kernel/vmlinuz" -initrd "$cache/kernels/$kernel/initramfs"
		-append "console=ttyS0 panic=-1 ignore_loglevel no_timer_check rcupdate.rcu_cpu_stall_timeout=120"
		-serial "file:$out/kernel.log"
		-device virtio-serial-pci -device virtconsole,chardev=console
		-chardev "stdio,id=console,signal=off,logfile=$out/output.log"
		-object rng-random,id=rng,filename=/dev/urandom -device virtio-rng-pci,rng=rng
		-virtfs "local,path=$root,mount_tag=root,security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,path=$out,mount_tag=results,security_model=none,multidevs=remap"
		"$@"
	)
}

# describe_rdma_machine <folder> <kernel> <netdev> [<further properties of the card>]: with two NVDIMMs
describe_rdma_machine()
{
	local out=$1 kernel=$2 netdev=$3 card=${4+,$4} options i
	# without a label area, because with one the region is misaligned and refused for fsdax
	options=(-machine "pc,nvdimm=on" -smp "$processors" -m "2G,slots=2,maxmem=8G" -netdev "$netdev,id=net"
		-device "virtio-net-pci,netdev=net,romfile=$card")
	for i in 0 1; do
		truncate -s 512M "$out/nvdimm$i"
		options+=(-object "memory-backend-file,id=mem$i,share=on,mem-path=$out/nvdimm$i,size=512M"
			-device "nvdimm,id=nvdimm$i,memdev=mem$i")
	done
	describe_machine "$out" "$kernel" "${options[@]}"
}

# tell_still <folder>: prints how long the guest stood still, if that was longer than connections wait for their peer (4
# s). A guest's clock continues while its emulator is stopped or gets no processor, so deadlines run out.
tell_still()
{
	local seconds
	seconds=$(sed -n 's/.*Long readout interval.* cs_nsec: \([0-9]*\)[0-9]\{9\} .*/\1/p' "$1/kernel.log" | sort -n | tail -n 1)
	if [[ -n $seconds ]] && ((seconds >= 4)); then
		echo "tests/lab: the guest stood still for $seconds s: what failed may have failed by that"
	fi
}

# verdict <folder> <status of the emulator>: prints the result of this machine; returns the exit status for the script
verdict()
{
	local out=$1 emulator=$2 status complaints
	rm -f "$out"/nvdimm[01]
	complaints=$(grep -aE "$kernel_complaints" "$out/kernel.log" || true)

	echo
	cat "$out/versions" 2>/dev/null || true
	if [[ -n $complaints ]]; then
		echo "the guest's kernel complained (all of it in ${out#"$project"/}/kernel.log):"
		head -20 <<<"$complaints"
	fi
	tell_still "$out"
	if [[ -s $out/status ]]; then
		status=$(<"$out/status")
		echo "tests/lab: the command ended with status $status"
		if ((status == 0)) && [[ -n $complaints ]]; then
			status=$exit_lab
		fi
		return "$status"
	fi
	if ((emulator == 137)); then
		echo "tests/lab: HANG: ended by the deadline of $deadline s; last lines of the guest's kernel:"
		tail -20 "$out/kernel.log"
		return $exit_deadline
	fi
	tail -40 "$out/kernel.log" >&2
	echo "tests/lab: the guest ended without a result (emulator's status $emulator)" >&2
	return $exit_lab
}

# machines that are still running end with the script
emulators=()
end_machines()
{
	local pid
	for pid in "${emulators[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
}
trap end_machines EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
