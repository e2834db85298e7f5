# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors
# shellcheck shell=bash

# make-packages.sh -- makes the packages in each way that there is: by CPack, by debian/, by packaging/librpma.spec; to be
# sourced, in the folder of the project
#
# The packages have the time of the sources: SOURCE_DATE_EPOCH, or that of the last commit.

if [[ -z ${SOURCE_DATE_EPOCH-} ]]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH
jobs=$(nproc)

# as packages name it: 2.0.0~rc1
sorted_version()
{
	dpkg-parsechangelog -S Version | sed 's/-[^-]*$//'
}

# copy_sources <folder>: what is in the work tree and not left out by .gitignore, without what was built
copy_sources()
{
	mkdir -p "$1"
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		# files that are deleted but not committed so are listed, and missing
		git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -cf - 2>/dev/null
	else
		tar --exclude './build*' -cf - .
	fi | tar -xf - -C "$1"
}

# make_by_cpack <sources> <folder to build in> <generator...>
make_by_cpack()
{
	local sources=$1 folder=$2 generator
	shift 2
	rm -rf "$folder"
	cmake -S "$sources" -B "$folder" -G Ninja -DCMAKE_INSTALL_PREFIX=/usr
	cmake --build "$folder" -j "$jobs"
	for generator in "$@"; do
		# cpack says what it does in the language of the user
		(cd "$folder" && LC_ALL=C.UTF-8 cpack -G "$generator")
	done
}

# make_by_debian <folder>: .deb, .dsc and .changes in it, by dpkg-buildpackage, without the tests
make_by_debian()
{
	local version
	version=$(sorted_version)
	rm -rf "$1"
	copy_sources "$1/librpma-$version"
	tar -C "$1" --exclude "librpma-$version/debian" --sort=name --owner=0 --group=0 --numeric-owner \
		--mtime="@$SOURCE_DATE_EPOCH" -caf "$1/librpma_$version.orig.tar.gz" "librpma-$version"
	(cd "$1/librpma-$version" && DEB_BUILD_OPTIONS="nocheck parallel=$jobs" DEB_BUILD_PROFILES=nocheck \
		dpkg-buildpackage -us -uc)
}

# make_by_spec <folder>: .rpm and .src.rpm below it
make_by_spec()
{
	local folder
	rm -rf "$1"
	mkdir -p "$1/SOURCES"
	folder=$(rpmspec -q --srpm --qf '%{name}-%{version}' packaging/librpma.spec | tr '~' -)
	copy_sources "$1/$folder"
	tar -C "$1" -caf "$1/SOURCES/$folder.tar.gz" "$folder"
	rm -rf "${1:?}/$folder"
	# rpm does not know the packages of Debian
	rpmbuild -ba --nodeps --define "_topdir $(realpath "$1")" packaging/librpma.spec
}
