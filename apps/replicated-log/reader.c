/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * reader.c -- print the content of a replica's file, and check every record
 *
 * The payloads go to standard output as they were written, byte for byte. Information about the log goes to
 * standard error.
 */

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log_file.h"
#include "numbers.h"

static int
usage(const char *name)
{
	fprintf(stderr,
		"usage: %s [-n <records>] [-q] <pmem-path>\n"
		"  -n  print the first so many records only; it is an error if there are fewer\n"
		"  -q  print no payload: just check the log\n",
		name);
	return 2;
}

/* prints up to limit records; afterwards the scan tells what was printed */
static enum log_status
print_records(struct log_scan *scan, uint64_t limit, bool quiet)
{
	struct log_record record;
	enum log_status status = LOG_OK;

	while (scan->records < limit && (status = log_scan_next(scan, &record)) == LOG_OK)
		if (!quiet && fwrite(record.payload, 1, record.length, stdout) != record.length)
			break;

	return status;
}

static int
print_log(const char *path, struct log_file *file, uint64_t limit, bool quiet)
{
	struct log_scan *scan = &file->scan;

	enum log_status status = print_records(scan, limit, quiet);
	if (fflush(stdout) || ferror(stdout)) {
		perror("standard output");
		return 1;
	}
	fprintf(stderr,
		"%s: %" PRIu64 " records, %" PRIu64 " bytes, log %012" PRIx64 ", epoch %" PRIu64 ", %" PRIu64
		" of %" PRIu64 " bytes used, granularity %s\n",
		path, scan->records, scan->payload_bytes, file->header.log_id,
		log_epoch_round(file->header.epoch), file->header.tail, file->header.size,
		file->mem.granularity);
	if (status == LOG_DAMAGED_RECORD) {
		fprintf(stderr,
			"%s: record %" PRIu64 " at offset %zu is damaged: nothing after it can be trusted\n",
			path, scan->records, scan->offset);
		return 1;
	}
	if (limit != UINT64_MAX && scan->records < limit) {
		fprintf(stderr, "%s: only %" PRIu64 " of %" PRIu64 " records are there\n", path,
			scan->records, limit);
		return 1;
	}

	return 0;
}

int
main(int argc, char *argv[])
{
	struct log_file file;
	uint64_t limit = UINT64_MAX;
	bool quiet = false;
	int opt;

	while ((opt = getopt(argc, argv, "n:q")) != -1) {
		if (opt == 'q')
			quiet = true;
		else if (opt != 'n' || !parse_number(optarg, UINT64_MAX - 1, &limit))
			return usage(argv[0]);
	}
	if (argc - optind != 1)
		return usage(argv[0]);

	if (log_file_open(argv[optind], false, &file))
		return 1;
	int ret = print_log(argv[optind], &file, limit, quiet);
	log_file_close(&file);

	return ret;
}
