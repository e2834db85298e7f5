/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* client.c -- the initiator: runs the steps one after the other, and reports them */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "control.h"
#include "initiator.h"
#include "numbers.h"
#include "op.h"
#include "output.h"
#include "result.h"
#include "server.h"
#include "worker.h"

#define LOOK_MS 20      /* interval at which the phases are checked */
#define PROGRESS_MS 250 /* interval at which the progress line changes */
#define RESULT_TIMEOUT_MS \
	60000 /* time for the server to make memory, to verify, and to see to other clients */

struct client {
	const struct options *options;
	struct rpma_peer *peer;
	int fd; /* the control connection */
	struct results results;
};

/* ---- progress ---- */

static void
show_progress(const struct load *load, const char *what, uint64_t ops, double seconds)
{
	if (!isatty(STDERR_FILENO))
		return;
	char op[CONTROL_TEXT_MAX], size[SIZE_TEXT_MAX];
	result_op_text(load, op);
	size_text(load->size, size);
	fprintf(stderr, "\r\033[K%s %s: %s %.1f s, %" PRIu64 " operations", op, size, what, seconds, ops);
	fflush(stderr);
}

static void
hide_progress(void)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}

/* ---- one step ---- */

/*
 * Lets the threads run. With seconds >= 0 it returns after at least that time since its start, once all
 * threads are in the phase. With negative seconds it returns when the threads have ended. The server has
 * nothing to send meanwhile, so any message means that it has ended.
 */
static bool
watch(struct client *client, struct run *run, double seconds, const char *what, char why[static WHY_MAX])
{
	const uint64_t begin = now_ns();
	uint64_t shown = begin;
	while (!run_is_over(run)) {
		uint64_t now = now_ns();
		double passed = (double)(now - begin) / 1e9;
		if (seconds >= 0 && passed >= seconds && run_all_entered(run))
			return true;
		if (now - shown >= (uint64_t)PROGRESS_MS * 1000000) {
			show_progress(&run->initiator->load, what, run_progress(run), passed);
			shown = now;
		}

		int timeout_ms = LOOK_MS;
		if (seconds >= passed && seconds - passed < LOOK_MS / 1e3)
			timeout_ms = (int)((seconds - passed) * 1e3) + 1;
		struct pollfd pfd = { .fd = client->fd, .events = POLLIN };
		if (poll(&pfd, 1, timeout_ms) > 0) {
			struct control_message msg;
			if (control_receive(client->fd, CONTROL_ERROR, CONTROL_PATIENCE_MS, &msg, NULL, why))
				why_say(why, "the server says: %s", msg.sentence);
			return false;
		}
	}
	return true;
}

/* runs warm-up and measuring, and ends all threads */
static bool
drive(struct client *client, struct run *run, struct result *result, char why[static WHY_MAX])
{
	const struct options *options = client->options;
	const struct control_message msg = { .type = CONTROL_MARK };

	bool good = watch(client, run, options->warm_up_s, "warming up", why) &&
		control_send(client->fd, &msg, why);
	struct cpu_time begin = cpu_now();
	if (good) {
		run_enter(run, PHASE_MEASURE);
		good = watch(client, run, options->count ? -1 : options->duration_s, "measuring", why);
	}
	if (good)
		run_enter(run, PHASE_STOP);
	else
		run_abort(run, why);
	good = run_join(run, why) && good;
	result->cpu = cpu_since(begin);
	hide_progress();
	return good;
}

static void
gather(const struct run *run, struct result *result)
{
	uint64_t begin = UINT64_MAX, end = 0;
	for (uint32_t i = 0; i < run->started; i++) {
		const struct worker *worker = &run->workers[i];
		histogram_merge(&result->latency, &worker->latency);
		result->ops += worker->ops;
		begin = worker->begin_ns < begin ? worker->begin_ns : begin;
		end = worker->end_ns > end ? worker->end_ns : end;
		if (worker->wrong && result->wrong == 0)
			snprintf(result->first_wrong, sizeof(result->first_wrong), "%.255s",
				worker->first_wrong);
		result->wrong += worker->wrong;
	}
	result->seconds = end > begin ? (double)(end - begin) / 1e9 : 0;
}

/* tells the server how many operations were posted, and takes its part of the result */
static bool
finish(struct client *client, const struct initiator *initiator, struct result *result,
	char why[static WHY_MAX])
{
	struct control_message msg = { .type = CONTROL_FINISH };
	msg.counts.count = initiator->load.connections;
	for (uint32_t i = 0; i < initiator->load.connections; i++)
		msg.counts.posted[i] = initiator->lanes[i].posted;
	if (!control_send(client->fd, &msg, why) ||
		!control_receive(client->fd, CONTROL_RESULT, RESULT_TIMEOUT_MS, &msg, NULL, why))
		return false;
	const struct control_result *answer = &msg.result;
	result->target_cpu = answer->cpu;
	result->target_clients = answer->clients;
	if (answer->wrong && result->wrong == 0)
		snprintf(result->first_wrong, sizeof(result->first_wrong), "%s", answer->first_wrong);
	result->wrong += answer->wrong;
	return true;
}

static bool
measure(struct client *client, struct initiator *initiator, struct result *result, char why[static WHY_MAX])
{
	struct run run;
	if (!run_start(&run, initiator, client->options->count, why))
		return false;
	bool good = drive(client, &run, result, why);
	if (good)
		gather(&run, result);
	run_free(&run);
	return good && finish(client, initiator, result, why);
}

static bool
run_step(struct client *client, const struct load *load, struct result *result, char why[static WHY_MAX])
{
	struct control_message msg = { .type = CONTROL_SETUP, .load = *load };
	struct initiator initiator;

	result->load = *load;
	if (!control_send(client->fd, &msg, why) ||
		!control_receive(client->fd, CONTROL_READY, RESULT_TIMEOUT_MS, &msg, NULL, why))
		return false;
	const struct control_ready ready = msg.ready;
	snprintf(client->results.memory, sizeof(client->results.memory), "%s", ready.memory);
	if (!initiator_open(&initiator, load, client->peer, client->options->addr, &ready, why))
		return false;
	bool good = control_receive(client->fd, CONTROL_GO, CONTROL_PATIENCE_MS, &msg, NULL, why) &&
		measure(client, &initiator, result, why);
	initiator_close(&initiator);
	return good;
}

/* ---- all steps ---- */

static bool
say_hello(struct client *client, const char *port, char why[static WHY_MAX])
{
	struct control_message msg = { .type = CONTROL_HELLO, .version = CONTROL_VERSION };
	return control_connect(client->options->addr, port, CONTROL_PATIENCE_MS, &client->fd, why) &&
		control_send(client->fd, &msg, why) &&
		control_receive(client->fd, CONTROL_HELLO, CONTROL_PATIENCE_MS, &msg, NULL, why);
}

static bool
open_device(struct client *client, char why[static WHY_MAX])
{
	struct ibv_context *device;
	int is_soft = 0;
	if (rpma_utils_get_ibv_context(client->options->addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &device) ||
		rpma_utils_ibv_context_is_soft(device, &is_soft) || rpma_peer_new(device, &client->peer))
		return why_say(why, "%s", rpma_errormsg());
	client->results.is_soft = is_soft != 0;
	snprintf(client->results.device, sizeof(client->results.device), "%.200s", device->device->name);
	return true;
}

/* operations of one word have one size, whatever sizes the other operations have */
static int
steps_of(const struct options *options, enum op op)
{
	return op_kinds[op].is_word ? 1 : options->size_count;
}

static bool
run_steps(struct client *client, char why[static WHY_MAX])
{
	const struct options *options = client->options;
	int capacity = 0;
	for (int i = 0; i < options->op_count; i++)
		capacity += steps_of(options, options->ops[i]);
	assert(capacity > 0); /* there is at least one operation and one size */
	client->results.list = calloc((size_t)capacity, sizeof(*client->results.list));
	if (client->results.list == NULL)
		return why_say(why, "out of memory");

	for (int i = 0; i < options->op_count; i++) {
		for (int j = 0; j < steps_of(options, options->ops[i]); j++) {
			struct load load = options->load;
			load.op = options->ops[i];
			load.size = op_kinds[load.op].is_word ? sizeof(uint64_t) : options->sizes[j];
			if (!options->is_target_way_given)
				load.target_waits = op_target_waits(&load);
			if (!run_step(client, &load, &client->results.list[client->results.count], why))
				return false;
			client->results.count++;
		}
	}
	return true;
}

static bool
report(const struct results *results, char why[static WHY_MAX])
{
	bool good = true;
	switch (results->options->format) {
	case FORMAT_JSON:
		good = report_json(results) ? true : why_say(why, "out of memory");
		break;
	case FORMAT_CSV:
		report_csv(results);
		break;
	default:
		report_table(results);
	}
	if (good && (fflush(stdout) || ferror(stdout)))
		good = why_say(why, "standard output: %m");
	if (good && results->options->report)
		good = report_html(results, results->options->report, why);
	return good;
}

/* prints a sentence for each step with wrong data, and returns EXIT_WRONG_DATA if there was one */
static int
status_of(const struct results *results)
{
	int status = EXIT_SUCCESS;
	for (int i = 0; i < results->count; i++) {
		const struct result *result = &results->list[i];
		char op[CONTROL_TEXT_MAX], size[SIZE_TEXT_MAX];
		if (result->wrong == 0)
			continue;
		result_op_text(&result->load, op);
		size_text(result->load.size, size);
		fprintf(stderr, "rpma-perf: %s %s: WRONG DATA, %" PRIu64 " times: %s\n", op, size,
			result->wrong, result->first_wrong);
		status = EXIT_WRONG_DATA;
	}
	return status;
}

int
client_run(const struct options *options, const char *port)
{
	struct client client = { .options = options, .fd = -1, .results.options = options };
	char why[WHY_MAX];
	machine_describe(&client.results.machine);

	/* what cannot be reported is not measured */
	if (!output_check_standard(why) || (options->report && !output_check(options->report, why))) {
		fprintf(stderr, "rpma-perf: %s\n", why);
		return EXIT_FAILURE;
	}
	/* the finished steps are reported even if a later step fails */
	bool good = open_device(&client, why) && say_hello(&client, port, why) && run_steps(&client, why);
	int status = EXIT_SUCCESS;
	if (client.results.count > 0) {
		char report_why[WHY_MAX];
		status = status_of(&client.results);
		if (!report(&client.results, report_why)) {
			fprintf(stderr, "rpma-perf: %s\n", report_why);
			status = status ? status : EXIT_FAILURE;
		}
	}
	if (!good) {
		fprintf(stderr, "rpma-perf: %s\n", why);
		status = status ? status : EXIT_FAILURE;
	}
	if (client.fd >= 0)
		close(client.fd);
	(void)rpma_peer_delete(&client.peer);
	free(client.results.list);
	return status;
}

/* ---- with a local server ---- */

/* runs in the child, which ends with the parent so that no server stays behind */
static void
serve_parent(const struct options *options, int ready_fd, pid_t parent)
{
	struct options of_server = *options;
	of_server.mode = MODE_SERVER;
	of_server.port = "0";
	of_server.once = true;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAILURE);
	_exit(server_run(&of_server, ready_fd));
}

/* reads the port, one line of text */
static bool
read_port(int fd, char port[static 8])
{
	size_t len = 0;
	while (len < 7) {
		ssize_t n = read(fd, port + len, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		if (port[len] == '\n') {
			port[len] = '\0';
			return len > 0;
		}
		len++;
	}
	return false;
}

int
client_run_local(const struct options *options)
{
	int ready[2];
	char port[8];
	if (pipe2(ready, 0)) {
		fprintf(stderr, "rpma-perf: pipe: %m\n");
		return EXIT_FAILURE;
	}
	/* fork before the library starts any thread */
	pid_t parent = getpid(), child = fork();
	if (child < 0) {
		fprintf(stderr, "rpma-perf: fork: %m\n");
		close(ready[0]);
		close(ready[1]);
		return EXIT_FAILURE;
	}
	if (child == 0) {
		close(ready[0]);
		serve_parent(options, ready[1], parent);
	}
	close(ready[1]);

	int status = EXIT_FAILURE, child_status = 0;
	const bool is_up = read_port(ready[0], port); /* else the server has said why it ends */
	if (is_up)
		status = client_run(options, port);
	close(ready[0]);
	if (is_up && status == EXIT_FAILURE)
		(void)kill(child, SIGTERM); /* it may be waiting for a client that never comes */
	if (waitpid(child, &child_status, 0) == child && status == EXIT_SUCCESS &&
		(!WIFEXITED(child_status) || WEXITSTATUS(child_status)))
		status = EXIT_FAILURE;
	if (!is_up && WIFSIGNALED(child_status))
		fprintf(stderr, "rpma-perf: the server was killed by signal %d\n", WTERMSIG(child_status));
	return status;
}
