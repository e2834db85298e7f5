# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# What compiler and linker do against a memory error that is still there: the library parses bytes of strangers.
# tests/surface/hardening.sh looks for each of these in what was built. HARDENED says if the build has them: the
# sanitizers find what this only stops, and have stand-ins for functions whose checked variants they do not know.

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
include(CMakePushCheckState)

option(HARDENING "stack protector, checked libc calls, control flow protection, read-only relocations" ON)
set(HARDENED OFF)
set(HARDENING_FORTIFY 0)          # level of _FORTIFY_SOURCE
set(HARDENING_CONTROL_FLOW OFF)   # true if jumps and returns are protected, as far as processor and system do it

if(NOT HARDENING OR SANITIZE)
	return()
endif()
set(HARDENED ON)

# clang only warns of a flag that is for other processors
cmake_push_check_state(RESET)
set(CMAKE_REQUIRED_FLAGS -Werror)
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
	string(MAKE_C_IDENTIFIER "HAVE${flag}" have)
	check_c_compiler_flag(${flag} ${have})
	if(${have})
		add_compile_options(${flag})
	endif()
endforeach()
cmake_pop_check_state()
if(HAVE_fcf_protection_full OR HAVE_mbranch_protection_standard)
	set(HARDENING_CONTROL_FLOW ON)
endif()

# The level that headers and compiler have, 3 before 2. Without optimisation there is none, and glibc would warn.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
if(CMAKE_CONFIGURATION_TYPES)
	set(type RELWITHDEBINFO)
endif()
cmake_push_check_state(RESET)
foreach(level 3 2)
	set(CMAKE_REQUIRED_FLAGS "${CMAKE_C_FLAGS_${type}} -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}")
	check_c_source_compiles("#include <features.h>
		#if __USE_FORTIFY_LEVEL < ${level}
		#error
		#endif
		int main(void) { return 0; }" HAVE_FORTIFY_${level}_${type})
	if(HAVE_FORTIFY_${level}_${type})
		set(HARDENING_FORTIFY ${level})
		break()
	endif()
endforeach()
cmake_pop_check_state()
if(HARDENING_FORTIFY)
	# options, because definitions come before the flags of the user, which may define it as well
	add_compile_options("$<$<NOT:$<CONFIG:Debug>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${HARDENING_FORTIFY}>")
endif()

add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)

# for folders whose programs are installed: they set CMAKE_POSITION_INDEPENDENT_CODE to HARDENED
check_pie_supported(LANGUAGES C)
