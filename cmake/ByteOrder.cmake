# SPDX-License-Identifier: BSD-3-Clause
# Copyright the librpma authors

# Descriptors and frames are little-endian on every machine, but no test has ever run where that is another order than the
# processor's. What is untested there would be a damaged key or length, so such a build is refused.

include(TestBigEndian)
test_big_endian(RPMA_BIG_ENDIAN)
if(RPMA_BIG_ENDIAN)
	message(FATAL_ERROR "The processor that this is built for (${CMAKE_SYSTEM_PROCESSOR}) is big-endian. librpma supports "
		"little-endian processors only: it was never tested on others.")
endif()
