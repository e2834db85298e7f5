/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* options.c -- the command line */

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "numbers.h"
#include "op.h"
#include "options.h"
#include "waits.h"

#define DEFAULT_PORT "7471"
#define SECONDS_MAX 1e6
#define RATE_MIN 0.001
#define RATE_MAX 1e9          /* times are counted in nanoseconds */
#define COMPUTE_US_MAX 100000 /* the thread that ends a step waits for one that computes */

/* the modes that have an option */
enum { OF_SERVER = 1 << MODE_SERVER, OF_CLIENT = 1 << MODE_CLIENT, OF_LOCAL = 1 << MODE_LOCAL };
#define OF_TARGET (OF_SERVER | OF_LOCAL)
#define OF_INITIATOR (OF_CLIENT | OF_LOCAL)
#define OF_ALL (OF_TARGET | OF_INITIATOR)

static bool
wrong_value(const char *name, const char *wanted, char why[static WHY_MAX])
{
	/* message(perf, wrong-option): a wrong value of an option -> `rpma-perf --help` */
	return why_say(why, "--%s takes %s", name, wanted);
}

static bool
take_u32(const char *name, const char *text, uint32_t min, uint32_t max, uint32_t *value,
	char why[static WHY_MAX])
{
	uint64_t parsed;
	/* message(wrong-option) */
	if (!number_parse(text, min, max, &parsed))
		return why_say(why, "--%s takes a number from %u to %u", name, min, max);
	*value = (uint32_t)parsed;
	return true;
}

static bool
take_op(struct options *o, const char *text, char why[static WHY_MAX])
{
	char *copy = strdup(text), *rest = copy;
	bool good = copy != NULL;
	o->op_count = 0;
	for (char *name; good && (name = strsep(&rest, ",")) != NULL;) {
		enum op op = op_parse(name);
		/* message(wrong-option) */
		if (op == OP_COUNT)
			good = why_say(why, "--op: \"%s\" is not an operation: see --help", name);
		else if (o->op_count == OP_COUNT)
			good = why_say(why, "--op: give each operation once");
		else
			o->ops[o->op_count++] = op;
	}
	free(copy);
	return good;
}

static bool
take_size(struct options *o, const char *text, char why[static WHY_MAX])
{
	if (!sizes_parse(text, 1, LOAD_SIZE_MAX, o->sizes, OPTIONS_SIZES_MAX, &o->size_count))
		return wrong_value("size", "sizes from 1 to 1g, as \"64,4k\" or, doubling, \"64:1m\"", why);
	return true;
}

static bool
take_flush_type(struct options *o, const char *text, char why[static WHY_MAX])
{
	return load_flush_parse(text, &o->load.flush_type)
		? true
		: wrong_value("flush-type", "\"persistent\" or \"visibility\"", why);
}

static bool
take_depth(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("depth", text, 1, LOAD_DEPTH_MAX, &o->load.depth, why);
}

static bool
take_batch(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("batch", text, 1, LOAD_DEPTH_MAX, &o->load.batch, why);
}

static bool
take_signal_every(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("signal-every", text, 1, LOAD_DEPTH_MAX, &o->load.signal_every, why);
}

static bool
take_connections(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("connections", text, 1, LOAD_CONNECTIONS_MAX, &o->load.connections, why);
}

static bool
take_clients(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("clients", text, 1, LOAD_CONNECTIONS_MAX, &o->load.connections, why);
}

static bool
take_threads(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("threads", text, 1, LOAD_THREADS_MAX, &o->load.threads, why);
}

static bool
take_pieces(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("pieces", text, 1, LOAD_PIECES_MAX, &o->load.pieces, why);
}

static bool
take_inline(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("inline", text, 0, UINT16_MAX, &o->load.inline_size, why);
}

static bool
take_rate(struct options *o, const char *text, char why[static WHY_MAX])
{
	return decimal_parse(text, RATE_MIN, RATE_MAX, &o->load.rate)
		? true
		: wrong_value("rate", "operations per second, from 0.001 to 1000000000", why);
}

/* without a value it is the way of most programs that sleep */
static bool
take_wait(struct options *o, const char *text, char why[static WHY_MAX])
{
	o->load.wait = text ? way_parse(text) : WAY_CQ_WAIT;
	if (o->load.wait == WAY_COUNT || o->load.wait == WAY_PAUSE)
		return wrong_value("wait", "\"poll\", \"cq_wait\" or \"fd\"", why);
	return true;
}

static bool
take_target_waits(struct options *o, const char *text, char why[static WHY_MAX])
{
	o->load.target_waits = way_parse(text);
	o->is_target_way_given = true;
	return o->load.target_waits < WAY_COUNT
		? true
		: wrong_value("target-waits", "\"poll\", \"cq_wait\", \"fd\" or \"pause\"", why);
}

static bool
take_verify(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)text;
	(void)why;
	o->load.verify = true;
	return true;
}

static bool
take_duration(struct options *o, const char *text, char why[static WHY_MAX])
{
	return decimal_parse(text, 0.001, SECONDS_MAX, &o->duration_s)
		? true
		: wrong_value("duration", "seconds", why);
}

static bool
take_warm_up(struct options *o, const char *text, char why[static WHY_MAX])
{
	return decimal_parse(text, 0, SECONDS_MAX, &o->warm_up_s) ? true
								  : wrong_value("warm-up", "seconds", why);
}

static bool
take_count(struct options *o, const char *text, char why[static WHY_MAX])
{
	return number_parse(text, 1, UINT64_MAX / 2, &o->count)
		? true
		: wrong_value("count", "a number above 0", why);
}

static bool
take_port(struct options *o, const char *text, char why[static WHY_MAX])
{
	uint64_t port;
	o->port = text;
	return number_parse(text, 0, UINT16_MAX, &port) ? true
							: wrong_value("port", "a number up to 65535", why);
}

static bool
take_data_port(struct options *o, const char *text, char why[static WHY_MAX])
{
	uint64_t port;
	o->data_port = text;
	return number_parse(text, 1, UINT16_MAX, &port)
		? true
		: wrong_value("data-port", "a number up to 65535", why);
}

static bool
take_memory(struct options *o, const char *text, char why[static WHY_MAX])
{
	o->memory = text;
	return *text ? true : wrong_value("memory", "\"dram\" or a path", why);
}

static bool
take_max_memory(struct options *o, const char *text, char why[static WHY_MAX])
{
	return size_parse(text, 1, UINT64_MAX / 2, &o->max_memory)
		? true
		: wrong_value("max-memory", "a size, as 4g", why);
}

static bool
take_overwrite(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)text;
	(void)why;
	o->overwrite = true;
	return true;
}

static bool
take_direct_write(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)text;
	(void)why;
	o->direct_write = true;
	return true;
}

static bool
take_compute(struct options *o, const char *text, char why[static WHY_MAX])
{
	return take_u32("compute", text, 0, COMPUTE_US_MAX, &o->compute_us, why);
}

static bool
take_once(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)text;
	(void)why;
	o->once = true;
	return true;
}

static bool
take_device(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)o;
	if (strcmp(text, "auto") != 0 && strcmp(text, "rdma") != 0 && strcmp(text, "soft") != 0)
		return wrong_value("device", "\"auto\", \"rdma\" or \"soft\"", why);
	return setenv("RPMA_DEVICE", text, 1) == 0 ? true : why_say(why, "the environment: %m");
}

static bool
take_json(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)text;
	(void)why;
	o->format = FORMAT_JSON;
	return true;
}

static bool
take_csv(struct options *o, const char *text, char why[static WHY_MAX])
{
	(void)text;
	(void)why;
	o->format = FORMAT_CSV;
	return true;
}

static bool
take_report(struct options *o, const char *text, char why[static WHY_MAX])
{
	o->report = text;
	return *text ? true : wrong_value("report", "the name of a file", why);
}

/* a VALUE_WORD follows its option as "=value", or as the next word if that can be nothing else */
enum value { VALUE_NONE, VALUE_NEEDED, VALUE_WORD };

static const struct option_kind {
	const char *name;
	enum value value;
	int of; /* modes */
	bool (*take)(struct options *o, const char *text, char why[static WHY_MAX]);
} kinds[] = {
	{ "port", VALUE_NEEDED, OF_SERVER | OF_CLIENT, take_port },
	{ "device", VALUE_NEEDED, OF_ALL, take_device },
	{ "data-port", VALUE_NEEDED, OF_TARGET, take_data_port },
	{ "memory", VALUE_NEEDED, OF_TARGET, take_memory },
	{ "overwrite", VALUE_NONE, OF_TARGET, take_overwrite },
	{ "direct-write", VALUE_NONE, OF_TARGET, take_direct_write },
	{ "max-memory", VALUE_NEEDED, OF_TARGET, take_max_memory },
	{ "compute", VALUE_NEEDED, OF_TARGET, take_compute },
	{ "once", VALUE_NONE, OF_SERVER, take_once },
	{ "op", VALUE_NEEDED, OF_INITIATOR, take_op },
	{ "size", VALUE_NEEDED, OF_INITIATOR, take_size },
	{ "flush-type", VALUE_NEEDED, OF_INITIATOR, take_flush_type },
	{ "depth", VALUE_NEEDED, OF_INITIATOR, take_depth },
	{ "batch", VALUE_NEEDED, OF_INITIATOR, take_batch },
	{ "signal-every", VALUE_NEEDED, OF_INITIATOR, take_signal_every },
	{ "connections", VALUE_NEEDED, OF_INITIATOR, take_connections },
	{ "clients", VALUE_NEEDED, OF_INITIATOR, take_clients },
	{ "threads", VALUE_NEEDED, OF_INITIATOR, take_threads },
	{ "inline", VALUE_NEEDED, OF_INITIATOR, take_inline },
	{ "pieces", VALUE_NEEDED, OF_INITIATOR, take_pieces },
	{ "rate", VALUE_NEEDED, OF_INITIATOR, take_rate },
	{ "wait", VALUE_WORD, OF_INITIATOR, take_wait },
	{ "target-waits", VALUE_NEEDED, OF_INITIATOR, take_target_waits },
	{ "duration", VALUE_NEEDED, OF_INITIATOR, take_duration },
	{ "count", VALUE_NEEDED, OF_INITIATOR, take_count },
	{ "warm-up", VALUE_NEEDED, OF_INITIATOR, take_warm_up },
	{ "verify", VALUE_NONE, OF_INITIATOR, take_verify },
	{ "json", VALUE_NONE, OF_INITIATOR, take_json },
	{ "csv", VALUE_NONE, OF_INITIATOR, take_csv },
	{ "report", VALUE_NEEDED, OF_INITIATOR, take_report },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* getopt_long's values are the indices of kinds[], then these */
enum { VALUE_HELP = KINDS + 1, VALUE_VERSION };

static bool
parse_mode(const char *text, enum mode *mode)
{
	static const char *const names[] = {
		[MODE_SERVER] = "server",
		[MODE_CLIENT] = "client",
		[MODE_LOCAL] = "local",
		[MODE_HELP] = "help",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			*mode = (enum mode)i;
			return true;
		}
	}
	return false;
}

static uint32_t
common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/*
 * True if the operations in flight may be such that none of them completes and no further batch fits. Batches
 * are posted as a whole, so the number of operations after the last signaled one is a multiple of the common
 * divisor of both.
 */
static bool
can_get_stuck(const struct load *load)
{
	uint32_t silent_max = load->signal_every - common_divisor(load->batch, load->signal_every);
	return silent_max > load->depth - load->batch;
}

/* true if the options apply to an operation */
static bool
check_op(const struct options *o, const struct op_kind *kind, char why[static WHY_MAX])
{
	const struct load *load = &o->load;
	if (!kind->is_answered && load->signal_every > load->depth)
		return why_say(why, "--signal-every %u is more than --depth %u: nothing would complete",
			load->signal_every, load->depth);
	if (!kind->is_answered && can_get_stuck(load))
		return why_say(why,
			"--depth has no room for a batch beside operations that do not complete: see --signal-every");
	if (load->rate > 0 && load->signal_every > 1 && !kind->is_answered)
		return why_say(why, "--rate needs the completion of each %s: leave --signal-every out",
			kind->name);
	if (load->inline_size > 0 && !kind->can_inline)
		return why_say(why, "--inline does not apply to %s: leave it out", kind->name);
	if (load->pieces > 1 && !kind->has_pieces)
		return why_say(why, "--pieces does not apply to %s: leave it out", kind->name);
	if (o->is_target_way_given && load->target_waits == WAY_PAUSE && kind->needs_receives)
		return why_say(why, "--target-waits pause does not apply to %s: the target receives",
			kind->name);
	for (int i = 0; !kind->is_word && i < o->size_count; i++)
		if (o->sizes[i] < load->pieces)
			return why_say(why,
				"--size: a size has fewer bytes than --pieces has segments: give a larger one");
	return true;
}

/* checks options that are each valid, but not together */
static bool
check_together(const struct options *o, char why[static WHY_MAX])
{
	const struct load *load = &o->load;
	if (load->batch > load->depth)
		return why_say(why,
			"--batch %u is more than --depth %u: a whole batch is in flight, so give a larger --depth",
			load->batch, load->depth);
	if (load->rate > 0 && load->batch > 1)
		return why_say(why, "--rate makes each operation due at its own time: leave --batch out");
	if (load->threads > load->connections)
		return why_say(why, "--threads %u is more than --connections %u: a connection has one thread",
			load->threads, load->connections);
	if (load->pieces > 1 && load->inline_size > 0)
		return why_say(why, "--inline and --pieces exclude each other: give one of them");
	for (int i = 0; i < o->op_count; i++)
		if (!check_op(o, &op_kinds[o->ops[i]], why))
			return false;
	return true;
}

/* takes the arguments that are not options: the mode, and an address */
static bool
take_words(struct options *o, int argc, char *argv[], char why[static WHY_MAX])
{
	if (optind == argc)
		return why_say(why, "server, client or local? See --help");
	if (!parse_mode(argv[optind], &o->mode))
		return why_say(why, "\"%s\" is neither server, client nor local; see --help", argv[optind]);
	optind++;
	if (o->mode == MODE_HELP)
		return true;
	if (optind < argc)
		o->addr = argv[optind++];
	else if (o->mode != MODE_LOCAL)
		return why_say(why, "an address is needed: rpma-perf %s ADDRESS",
			o->mode == MODE_SERVER ? "server" : "client");
	return optind == argc ? true : why_say(why, "\"%s\" is one argument too many", argv[optind]);
}

/* each option is valid in some modes only */
static bool
check_mode(const struct options *o, const bool given[static KINDS], char why[static WHY_MAX])
{
	for (size_t i = 0; i < KINDS; i++)
		if (given[i] && !(kinds[i].of & 1 << o->mode))
			return why_say(why, "--%s is an option of %s", kinds[i].name,
				kinds[i].of == OF_SERVER           ? "the server"
					: kinds[i].of == OF_TARGET ? "the server, or of local"
					: o->mode == MODE_LOCAL    ? "server and client"
								   : "the client, or of local");
	return true;
}

static bool
is_given(const bool given[static KINDS], const char *name)
{
	size_t i = 0;
	while (strcmp(kinds[i].name, name) != 0)
		i++;
	return given[i];
}

/* clients are connections that one event loop serves, on each side */
static bool
check_clients(const struct options *o, const bool given[static KINDS], char why[static WHY_MAX])
{
	const struct load *load = &o->load;
	if (!is_given(given, "clients"))
		return true;
	if (is_given(given, "connections"))
		return why_say(why, "--clients and --connections exclude each other: give one of them");
	if (is_given(given, "threads"))
		return why_say(why, "--clients are served by one thread: leave --threads out");
	if (load->wait != WAY_FD)
		return why_say(why, "--clients are served by an event loop: give --wait fd as well");
	if (o->is_target_way_given && load->target_waits != WAY_FD && load->target_waits != WAY_PAUSE)
		return why_say(why,
			"--clients: the target's program is an event loop or asleep: give --target-waits fd or pause");
	return true;
}

/* what was given, as a whole */
static bool
check(const struct options *o, const bool *given, char why[static WHY_MAX])
{
	if (o->mode == MODE_HELP)
		return true;
	if (!check_mode(o, given, why))
		return false;
	return o->mode == MODE_SERVER || (check_clients(o, given, why) && check_together(o, why));
}

/*
 * The next word if it names a way of waiting, else NULL: then it may be a mode, an address or an option, as after
 * the --wait that had no value.
 */
static char *
take_way(int argc, char *argv[])
{
	if (optind == argc || way_parse(argv[optind]) == WAY_COUNT)
		return NULL;
	return argv[optind++];
}

/* ---- the command line as text ---- */

struct text {
	char *at;
	size_t left; /* room, with one byte for the end of the text */
};

static void
put(struct text *text, char c)
{
	if (text->left > 1) {
		*text->at++ = c;
		text->left--;
	}
	*text->at = '\0';
}

/* in quotes unless all of its characters mean themselves; the report is shown on terminals, so as printable ASCII */
static void
put_word(struct text *text, const char *word)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_";
	const bool is_plain = *word != '\0' && word[strspn(word, plain)] == '\0';
	if (!is_plain)
		put(text, '\'');
	for (; *word; word++) {
		if (*word == '\'') { /* ends the quotes, and begins them again */
			put(text, '\'');
			put(text, '\\');
			put(text, '\'');
		}
		put(text, (char)(*word >= ' ' && *word <= '~' ? *word : '?'));
	}
	if (!is_plain)
		put(text, '\'');
}

static void
put_command(struct options *o, int argc, char *argv[])
{
	struct text text = { o->command, sizeof(o->command) };
	put_word(&text, "rpma-perf");
	for (int i = 1; i < argc; i++) {
		put(&text, ' ');
		put_word(&text, argv[i]);
	}
	if (text.left == 1)
		memcpy(o->command + sizeof(o->command) - 4, "...", 4);
}

bool
options_parse(struct options *o, int argc, char *argv[], char why[static WHY_MAX])
{
	*o = (struct options){
		.addr = "127.0.0.1",
		.port = DEFAULT_PORT,
		.memory = MEMORY_DRAM,
		.max_memory = (uint64_t)1 << 30,
		.load = {
			.flush_type = RPMA_FLUSH_TYPE_VISIBILITY,
			.depth = 1,
			.batch = 1,
			.signal_every = 1,
			.connections = 1,
			.threads = 1,
			.pieces = 1,
		},
		.ops = { OP_WRITE },
		.op_count = 1,
		.sizes = { 64 },
		.size_count = 1,
		.warm_up_s = 0.2,
		.duration_s = 1,
	};
	put_command(o, argc, argv); /* getopt_long changes the order of the arguments */

	static const int arguments[] = {
		[VALUE_NONE] = no_argument,
		[VALUE_NEEDED] = required_argument,
		[VALUE_WORD] = optional_argument,
	};
	struct option longs[KINDS + 3] = { 0 };
	bool given[KINDS] = { false };
	for (size_t i = 0; i < KINDS; i++)
		longs[i] = (struct option){ kinds[i].name, arguments[kinds[i].value], NULL, (int)i };
	longs[KINDS] = (struct option){ "help", no_argument, NULL, VALUE_HELP };
	longs[KINDS + 1] = (struct option){ "version", no_argument, NULL, VALUE_VERSION };

	opterr = 0; /* this program prints the error messages itself */
	optind = 1;
	for (int value; (value = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
		if (value == VALUE_HELP || value == 'h') {
			o->mode = MODE_HELP;
			return true;
		}
		if (value == VALUE_VERSION) {
			o->mode = MODE_VERSION;
			return true;
		}
		if (value == ':')
			return why_say(why, "%s needs a value", argv[optind - 1]);
		if (value == '?')
			return why_say(why, "%s is no option; see --help", argv[optind - 1]);
		given[value] = true;
		if (kinds[value].value == VALUE_WORD && optarg == NULL)
			optarg = take_way(argc, argv);
		if (!kinds[value].take(o, optarg, why))
			return false;
	}
	return take_words(o, argc, argv, why) && check(o, given, why);
}
