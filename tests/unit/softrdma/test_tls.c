/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * test_tls.c -- TLS on the socket of a connection
 *
 * First the two ends of a socket pair, each with its own credentials; then connections of the device, with
 * and without the connection manager.
 */

#include "by_hand.h"

#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "certificates.h"
#include "pattern.h"
#include "softrdma/engine/connection.h"
#include "softrdma/engine/reader.h"
#include "softrdma/wire/credentials.h"
#include "softrdma/wire/stream.h"
#include "softrdma/wire/tls.h"

/* --- allocations of OpenSSL that fail --- */

static const char *no_memory_in; /* this call fails from now on; NULL: none */

#define WRAP(type, name, params, args) \
	type *__real_##name params; \
	type *__wrap_##name params; \
	type *__wrap_##name params \
	{ \
		bool fails = no_memory_in && strcmp(no_memory_in, #name) == 0; \
		return fails ? NULL : __real_##name args; \
	}

WRAP(BIO, BIO_new, (const BIO_METHOD *method), (method))
WRAP(SSL_CTX, SSL_CTX_new, (const SSL_METHOD *method), (method))
WRAP(SSL, SSL_new, (SSL_CTX * ctx), (ctx))
WRAP(SSL_SESSION, SSL_SESSION_new, (void), ())

/* --- two ends --- */

struct end {
	int fd;
	struct softrdma_credentials *credentials;
	struct softrdma_tls *tls;
	int error; /* of the handshake */
};

static void
end_init(struct end *end, int fd, bool active)
{
	*end = (struct end){ .fd = fd, .error = EAGAIN };
	assert_int_equal(softrdma_credentials_of_environment(&end->credentials), 0);
	assert_non_null(end->credentials);
	assert_int_equal(softrdma_tls_new(end->credentials->context, fd, active, &end->tls), 0);
}

static void
end_fini(struct end *end)
{
	softrdma_tls_delete(end->tls);
	softrdma_credentials_put(end->credentials);
	if (end->fd >= 0)
		close(end->fd);
}

struct ends {
	struct end active, passive;
};

static void
node(void)
{
	use_certificates("node", "node", "ca");
}

/* calls set the credentials of each side */
static void
ends_init(struct ends *e, void (*active)(void), void (*passive)(void))
{
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	active();
	end_init(&e->active, fds[0], true);
	passive();
	end_init(&e->passive, fds[1], false);
}

static void
ends_fini(struct ends *e)
{
	end_fini(&e->active);
	end_fini(&e->passive);
	use_certificates(NULL, NULL, NULL);
}

static void
step(struct end *end)
{
	if (end->error == EAGAIN)
		end->error = softrdma_tls_handshake(end->tls);
}

static void
ends_shake(struct ends *e)
{
	for (int i = 0; i < 10; i++) {
		step(&e->active);
		step(&e->passive);
	}
}

static void
ends_agree(struct ends *e)
{
	ends_shake(e);
	assert_string_equal(softrdma_tls_why(e->active.tls), "");
	assert_string_equal(softrdma_tls_why(e->passive.tls), "");
	assert_int_equal(e->active.error, 0);
	assert_int_equal(e->passive.error, 0);
	assert_int_equal(softrdma_tls_handshake(e->active.tls), 0); /* a further call gives the same result */
}

/* OpenSSL 3.5 stops after a record without data, such as a KeyUpdate, also if a record with data has been read with it */
static ssize_t
recv_unread(struct softrdma_tls *tls, void *buf, size_t len)
{
	ssize_t n;
	do
		n = softrdma_tls_recv(tls, buf, len);
	while (n < 0 && errno == EAGAIN && softrdma_tls_is_unread(tls));
	return n;
}

static ssize_t
peek_unread(struct softrdma_tls *tls, void *buf, size_t len)
{
	ssize_t n;
	do
		n = softrdma_tls_peek(tls, buf, len);
	while (n < 0 && errno == EAGAIN && softrdma_tls_is_unread(tls));
	return n;
}

static void
expect_nothing_more(struct end *end)
{
	char byte;
	assert_int_equal(softrdma_tls_recv(end->tls, &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(softrdma_tls_has_input(end->tls));
}

/* sends on one end, receives and compares on the other */
static void
expect_passes(struct end *from, struct end *to, size_t len)
{
	static uint8_t sent[SOFTRDMA_TLS_RECORD], got[SOFTRDMA_TLS_RECORD + 1];
	static uint8_t round;
	round++;
	for (size_t i = 0; i < len; i++)
		sent[i] = (uint8_t)(i * 7 + round);
	assert_int_equal(softrdma_tls_send(from->tls, sent, len), len);
	assert_int_equal(peek_unread(to->tls, got, 1), 1);
	assert_int_equal(got[0], sent[0]);
	assert_true(softrdma_tls_has_input(to->tls));
	for (size_t have = 0; have < len;) {
		ssize_t n = recv_unread(to->tls, got + have, sizeof(got) - have);
		assert_true(n > 0);
		have += (size_t)n;
	}
	assert_memory_equal(got, sent, len);
	expect_nothing_more(to);
}

/* false: it could not be announced yet */
static bool
end_output(struct softrdma_tls *tls)
{
	struct softrdma_stream *stream = softrdma_tls_stream(tls);
	return stream->ops->end(stream);
}

static void
expect_end(struct end *end, ssize_t result)
{
	char byte;
	assert_int_equal(recv_unread(end->tls, &byte, 1), result);
	if (result < 0)
		assert_int_equal(errno, ECONNRESET);
}

static void
expect_both_ways(struct ends *e)
{
	const size_t lens[] = { 1, 20, 4096, SOFTRDMA_TLS_RECORD };
	for (int i = 0; i < 4; i++) {
		expect_passes(&e->active, &e->passive, lens[i]);
		expect_passes(&e->passive, &e->active, lens[i]);
	}
}

static void
test_trusted(void **state)
{
	(void)state;
	struct ends e;
	ends_init(&e, node, node);
	ends_agree(&e);
	expect_both_ways(&e);
	/* one side has ended, the other may still send */
	assert_true(end_output(e.active.tls));
	expect_end(&e.passive, 0);
	expect_passes(&e.passive, &e.active, 100);
	assert_true(end_output(e.passive.tls));
	expect_end(&e.active, 0);
	assert_string_equal(softrdma_tls_why(e.active.tls), "");
	ends_fini(&e);
}

static void
same_psk(void)
{
	use_psk("psk");
}

/* a connection that has begun keeps its credentials, when the side has others by now, or none */
static void
test_credentials_end_first(void **state)
{
	(void)state;
	struct ends e;
	struct softrdma_credentials *none;
	ends_init(&e, same_psk, same_psk);
	softrdma_credentials_put(e.active.credentials);
	softrdma_credentials_put(e.passive.credentials);
	e.active.credentials = e.passive.credentials = NULL;
	use_certificates(NULL, NULL, NULL);
	assert_int_equal(softrdma_credentials_of_environment(&none), 0);
	assert_null(none);
	ends_agree(&e);
	expect_both_ways(&e);
	ends_fini(&e);
}

static void
other_psk(void)
{
	use_psk("other-psk");
}

static void
other_name(void)
{
	use_psk("other-name");
}

static void
stranger(void)
{
	use_certificates("stranger", "stranger", "ca");
}

static void
trusts_strangers(void)
{
	use_certificates("node", "node", "other-ca");
}

static void
expired(void)
{
	use_certificates("expired", "expired", "ca");
}

static void
test_psk(void **state)
{
	(void)state;
	struct ends e;
	ends_init(&e, same_psk, same_psk);
	ends_agree(&e);
	expect_both_ways(&e);
	ends_fini(&e);
}

#define PEER_OF_OTHER_CA "the peer's certificate is of a CA that this side does not trust"
#define OWN_OF_OTHER_CA "the peer does not trust the CA of this side's certificate"
#define KEYS_DIFFER "the pre-shared keys of the two sides differ: give both the same file"

/* A side that is not trusted, or does not trust, is refused. In TLS 1.3 the active side learns of it last. */
static void
test_not_trusted(void **state)
{
	(void)state;
	static const struct {
		void (*active)(void), (*passive)(void);
		const char *passive_why, *active_why;
	} cases[] = {
		{ stranger, node, PEER_OF_OTHER_CA, OWN_OF_OTHER_CA },
		{ node, stranger, OWN_OF_OTHER_CA, PEER_OF_OTHER_CA },
		{ node, trusts_strangers, PEER_OF_OTHER_CA, OWN_OF_OTHER_CA },
		{ expired, node,
			"the peer's certificate has expired:", "this side's certificate has expired" },
		{ node, expired, "this side's certificate has expired",
			"the peer's certificate has expired:" },
		{ same_psk, node, OWN_OF_OTHER_CA,
			"the peer uses certificates, and this side a pre-shared key" },
		{ node, same_psk, "have different identities, or the peer uses certificates",
			"the peer uses a pre-shared key, and this side certificates" },
		{ same_psk, other_psk, KEYS_DIFFER, KEYS_DIFFER },
		{ other_psk, same_psk, KEYS_DIFFER, KEYS_DIFFER },
		{ same_psk, other_name, "have different identities", "have different identities" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ends e;
		ends_init(&e, cases[i].active, cases[i].passive);
		ends_shake(&e);
		assert_int_equal(e.passive.error, ECONNRESET);
		if (e.active.error == 0)
			expect_end(&e.active, -1);
		else
			assert_int_equal(e.active.error, ECONNRESET);
		const char *active_why = softrdma_tls_why(e.active.tls);
		const char *passive_why = softrdma_tls_why(e.passive.tls);
		if (!strstr(active_why, cases[i].active_why) || !strstr(passive_why, cases[i].passive_why))
			fail_msg("case %zu: \"%s\" and \"%s\"", i, active_why, passive_why);
		/* no data can be sent or received after that */
		uint8_t byte = 0;
		assert_int_equal(softrdma_tls_send(e.passive.tls, &byte, 1), -1);
		assert_int_equal(errno, EPIPE);
		assert_true(softrdma_tls_end(e.passive.tls));
		expect_end(&e.passive, -1);
		ends_fini(&e);
	}
}

/* an end without close_notify, at each stage */
static void
test_cut(void **state)
{
	(void)state;
	struct ends e;
	ends_init(&e, node, node);
	shutdown(e.active.fd, SHUT_WR);
	step(&e.passive);
	assert_int_equal(e.passive.error, ECONNRESET);
	assert_string_equal(softrdma_tls_why(e.passive.tls), "");
	ends_fini(&e);

	ends_init(&e, node, node);
	step(&e.active);
	step(&e.passive);
	shutdown(e.passive.fd, SHUT_WR);
	shutdown(e.active.fd, SHUT_WR);
	e.passive.error = softrdma_tls_handshake(e.passive.tls);
	assert_int_equal(e.passive.error, ECONNRESET);
	ends_fini(&e);

	ends_init(&e, node, node);
	ends_agree(&e);
	assert_int_equal(softrdma_tls_send(e.active.tls, "word", 4), 4);
	shutdown(e.active.fd, SHUT_WR);
	char word[8];
	assert_int_equal(softrdma_tls_recv(e.passive.tls, word, sizeof(word)), 4);
	expect_end(&e.passive, -1);
	assert_string_equal(softrdma_tls_why(e.passive.tls), "");
	ends_fini(&e);

	ends_init(&e, node, node);
	ends_agree(&e);
	fail_call(FAIL_MINE, "recv", 0, 1, ETIMEDOUT);
	assert_int_equal(softrdma_tls_recv(e.passive.tls, word, sizeof(word)), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(fail_nothing(), 1);
	ends_fini(&e);
}

/* A signal interrupts a call. The socket has already reported its data, and will not report it again. */
static void
test_interrupted(void **state)
{
	(void)state;
	struct ends e;
	ends_init(&e, node, node);
	step(&e.active);
	fail_call(FAIL_MINE, "recv", 0, 1, EINTR); /* which peeks at the first byte */
	step(&e.passive);
	assert_int_equal(fail_nothing(), 1);
	step(&e.active); /* has a response to read */
	ends_agree(&e);

	fail_call(FAIL_MINE, "send", 0, 2, EINTR);
	assert_int_equal(softrdma_tls_send(e.active.tls, "word", 4), 4);
	assert_false(softrdma_tls_wants_space(e.active.tls));
	assert_int_equal(fail_nothing(), 2);
	char word[8];
	fail_call(FAIL_MINE, "recv", 0, 2, EINTR);
	assert_int_equal(softrdma_tls_recv(e.passive.tls, word, sizeof(word)), 4);
	assert_memory_equal(word, "word", 4);
	assert_int_equal(fail_nothing(), 2);
	expect_nothing_more(&e.passive);
	ends_fini(&e);
}

/* data that can never be sent is not kept */
static void
test_other_side_gone(void **state)
{
	(void)state;
	struct ends e;
	ends_init(&e, node, node);
	ends_agree(&e);
	fail_call(FAIL_MINE, "send", 0, 1, EPIPE);
	assert_int_equal(softrdma_tls_send(e.active.tls, "word", 4), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(fail_nothing(), 1);
	assert_false(softrdma_tls_wants_space(e.active.tls));
	assert_null(softrdma_tls_record(e.active.tls));
	ends_fini(&e);
}

/* a bit that was changed in transit */
static void
test_changed_on_the_way(void **state)
{
	(void)state;
	struct ends e;
	ends_init(&e, node, node);
	ends_agree(&e);
	assert_int_equal(softrdma_tls_send(e.active.tls, "word", 4), 4);
	uint8_t bytes[256];
	ssize_t n = recv(e.passive.fd, bytes, sizeof(bytes), 0);
	assert_true(n > 4);
	assert_null(memmem(bytes, (size_t)n, "word", 4)); /* encrypted */
	bytes[n - 1] ^= 1;
	raw_send(e.active.fd, bytes, (size_t)n);
	expect_end(&e.passive, -1);
	assert_string_equal(softrdma_tls_why(e.passive.tls), "decryption failed or bad record mac");
	ends_fini(&e);
}

static void
test_full_socket(void **state)
{
	(void)state;
	struct ends e;
	size_t sent = 0, got = 0;
	static uint8_t bytes[SOFTRDMA_TLS_RECORD];
	ends_init(&e, node, node);
	ends_agree(&e);
	for (uint8_t *record = softrdma_tls_record(e.active.tls); record;
		record = softrdma_tls_record(e.active.tls)) {
		memset(record, (int)(sent / SOFTRDMA_TLS_RECORD), SOFTRDMA_TLS_RECORD);
		softrdma_tls_seal(e.active.tls, SOFTRDMA_TLS_RECORD);
		sent += SOFTRDMA_TLS_RECORD;
	}
	assert_int_equal(errno, EAGAIN);
	assert_true(softrdma_tls_wants_space(e.active.tls));
	assert_true(softrdma_stream_wants_space(softrdma_tls_stream(e.active.tls)));
	assert_false(end_output(e.active.tls));
	assert_int_equal(softrdma_tls_send(e.active.tls, bytes, 1), -1);
	assert_int_equal(errno, EAGAIN);
	while (got < sent) {
		ssize_t n = softrdma_tls_recv(e.passive.tls, bytes, sizeof(bytes));
		if (n < 0) {
			assert_int_equal(errno, EAGAIN);
			softrdma_tls_flush(e.active.tls);
			continue;
		}
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++, got++)
			assert_int_equal(bytes[i], (uint8_t)(got / SOFTRDMA_TLS_RECORD));
	}
	assert_false(softrdma_tls_wants_space(e.active.tls));
	/* the socket is full in the middle of a record that must be sent at once, and of close_notify */
	fail_call(FAIL_MINE, "send", 0, 1, EAGAIN);
	assert_int_equal(softrdma_tls_send(e.active.tls, bytes, 1), -1);
	assert_int_equal(errno, EAGAIN);
	fail_nothing();
	softrdma_tls_flush(e.active.tls);
	assert_int_equal(softrdma_tls_recv(e.passive.tls, bytes, sizeof(bytes)), 1);
	fail_call(FAIL_MINE, "send", 0, 1, EAGAIN);
	assert_false(end_output(e.active.tls));
	fail_nothing();
	assert_true(softrdma_tls_wants_space(e.active.tls));
	assert_true(end_output(e.active.tls));
	assert_false(softrdma_tls_wants_space(e.active.tls));
	expect_end(&e.passive, 0);
	ends_fini(&e);
}

/*
 * After too much data for one key, the next one is used, and the other side follows. This must wait while
 * there is no room for the KeyUpdate: both sides have more to send than fits, and must still go on reading.
 */
static void
test_another_key(void **state)
{
	(void)state;
	struct ends e;
	unsigned fit = 0;
	ends_init(&e, node, node);
	ends_agree(&e);
	while (softrdma_tls_record(e.active.tls)) {
		softrdma_tls_seal(e.active.tls, SOFTRDMA_TLS_RECORD);
		fit += !softrdma_tls_wants_space(e.active.tls);
	}
	ends_fini(&e);

	ends_init(&e, node, node);
	ends_agree(&e);
	struct end *const ends[] = { &e.active, &e.passive };
	static uint8_t bytes[SOFTRDMA_TLS_RECORD];
	for (unsigned i = 0; i < SOFTRDMA_TLS_KEY_RECORDS - fit; i++) {
		for (int from = 0; from < 2; from++) {
			assert_int_equal(softrdma_tls_send(ends[from]->tls, "x", 1), 1);
			assert_int_equal(softrdma_tls_recv(ends[!from]->tls, bytes, sizeof(bytes)), 1);
		}
	}
	for (int from = 0; from < 2; from++) {
		for (unsigned i = 0; i <= fit; i++) {
			uint8_t *record = softrdma_tls_record(ends[from]->tls);
			assert_non_null(record);
			memset(record, (int)i, SOFTRDMA_TLS_RECORD);
			softrdma_tls_seal(ends[from]->tls, SOFTRDMA_TLS_RECORD);
		}
		assert_true(softrdma_tls_wants_space(ends[from]->tls));
	}
	size_t got[2] = { 0 };
	const size_t all = (fit + 1) * (size_t)SOFTRDMA_TLS_RECORD;
	while (got[0] < all || got[1] < all) {
		size_t before = got[0] + got[1];
		for (int to = 0; to < 2; to++) {
			ssize_t n = softrdma_tls_recv(ends[to]->tls, bytes, sizeof(bytes));
			for (ssize_t i = 0; i < n; i++, got[to]++)
				assert_int_equal(bytes[i], (uint8_t)(got[to] / SOFTRDMA_TLS_RECORD));
			softrdma_tls_flush(ends[to]->tls);
		}
		assert_true(got[0] + got[1] > before);
	}
	expect_nothing_more(&e.active);
	expect_nothing_more(&e.passive);
	/*
	 * There is room now: the KeyUpdate leaves with the next record. A record of one byte has 5 bytes for
	 * its header, 1 for its type and 16 for its tag; the KeyUpdate has 5.
	 */
	assert_int_equal(softrdma_tls_send(e.active.tls, "x", 1), 1);
	assert_int_equal(recv(e.passive.fd, bytes, sizeof(bytes), MSG_PEEK),
		(5 + 5 + 1 + 16) + (5 + 1 + 1 + 16));
	assert_int_equal(recv_unread(e.passive.tls, bytes, sizeof(bytes)), 1);
	expect_both_ways(&e);
	ends_fini(&e);
}

/* an active side that is plain OpenSSL, not the device */
struct other {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
};

static void
other_begin(struct other *other, struct end *passive)
{
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	node();
	end_init(passive, fds[1], false);
	other->fd = fds[0];
	other->ctx = SSL_CTX_new(TLS_client_method());
	assert_int_equal(
		SSL_CTX_use_certificate_file(other->ctx, file_path("node", ".pem"), SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(other->ctx, file_path("node", ".key"), SSL_FILETYPE_PEM),
		1);
	other->ssl = SSL_new(other->ctx);
	SSL_set_fd(other->ssl, other->fd);
	assert_int_equal(fcntl(other->fd, F_SETFL, O_NONBLOCK), 0);
}

static void
other_connects(const struct other *other, struct end *passive)
{
	for (int i = 0; i < 10; i++) {
		SSL_connect(other->ssl);
		step(passive);
	}
}

static void
other_init(struct other *other, struct end *passive)
{
	other_begin(other, passive);
	other_connects(other, passive);
	assert_int_equal(passive->error, 0);
}

static void
other_fini(struct other *other, struct end *passive)
{
	SSL_free(other->ssl);
	SSL_CTX_free(other->ctx);
	close(other->fd);
	end_fini(passive);
	use_certificates(NULL, NULL, NULL);
}

/* sends records without data: KeyUpdates */
static void
other_updates_keys(const struct other *other, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		assert_int_equal(SSL_key_update(other->ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		assert_int_equal(SSL_do_handshake(other->ssl), 1);
	}
}

/* Receives everything available, and counts the calls. Returns the result of the last one, with its errno. */
static ssize_t
receive_all(struct end *end, size_t *got, unsigned *calls)
{
	static uint8_t bytes[SOFTRDMA_TLS_RECORD];
	for (*got = 0, *calls = 1;; ++*calls) {
		ssize_t n = softrdma_tls_recv(end->tls, bytes, sizeof(bytes));
		if (n <= 0 && !softrdma_tls_is_unread(end->tls))
			return n;
		*got += n > 0 ? (size_t)n : 0;
	}
}

/* a peer may change its key for ever, as long as it sends enough data between the changes */
static void
test_changes_of_key(void **state)
{
	(void)state;
	struct end passive;
	struct other other;
	size_t got;
	unsigned calls;
	static uint8_t bytes[SOFTRDMA_TLS_DATA_PER_IDLE_RECORD];
	other_init(&other, &passive);
	other_updates_keys(&other, SOFTRDMA_TLS_IDLE_RECORDS);
	/* the caller must read the stream again at once, because the socket does not report the rest */
	struct softrdma_stream *stream = softrdma_tls_stream(passive.tls);
	assert_int_equal(stream->ops->recv(stream, &(struct iovec){ bytes, sizeof(bytes) }, 1), -1);
	assert_int_equal(errno, EINTR);
	assert_int_equal(receive_all(&passive, &got, &calls), -1);
	assert_int_equal(errno, EAGAIN);
	assert_false(softrdma_tls_has_input(passive.tls));
	for (unsigned i = 0; i < 3 * SOFTRDMA_TLS_IDLE_RECORDS; i++) {
		assert_int_equal(SSL_write(other.ssl, bytes, sizeof(bytes)), sizeof(bytes));
		assert_int_equal(receive_all(&passive, &got, &calls), -1);
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(got, sizeof(bytes));
		other_updates_keys(&other, 1);
	}
	assert_int_equal(receive_all(&passive, &got, &calls), -1);
	assert_int_equal(errno, EAGAIN);
	assert_string_equal(softrdma_tls_why(passive.tls), "");
	other_fini(&other, &passive);
}

/*
 * A change of key costs this side far more than the peer, so a limit ends the connection soon. A record
 * counts when the next one begins.
 */
static void
test_flood_of_changes_of_key(void **state)
{
	(void)state;
	for (int with_data = 0; with_data < 2; with_data++) {
		struct end passive;
		struct other other;
		size_t got = 0, all = 0;
		unsigned calls;
		int error = EAGAIN;
		other_init(&other, &passive);
		for (unsigned i = 0; i < SOFTRDMA_TLS_IDLE_RECORDS + (with_data ? 1 : 2); i++) {
			assert_int_equal(error, EAGAIN);
			other_updates_keys(&other, 1);
			if (with_data) /* not enough data for the change */
				assert_int_equal(SSL_write(other.ssl, "data", 4), 4);
			assert_int_equal(receive_all(&passive, &got, &calls), -1);
			error = errno;
			assert_true(calls <= 3); /* it returns after a few records */
			all += got;
		}
		assert_int_equal(error, ECONNRESET);
		assert_int_equal(all, with_data ? (SOFTRDMA_TLS_IDLE_RECORDS + 1) * 4 : 0);
		assert_string_equal(softrdma_tls_why(passive.tls), "the peer sends records without data");
		expect_end(&passive, -1);
		other_fini(&other, &passive);
	}

	/* all at once: no call takes more than OpenSSL's buffer holds */
	struct end passive;
	struct other other;
	char byte;
	int unread = 0;
	other_init(&other, &passive);
	BIO *gathered = BIO_new(BIO_s_mem());
	SSL_set0_wbio(other.ssl, gathered);
	other_updates_keys(&other, 2 * SOFTRDMA_TLS_READ_MAX / 27); /* the length of such a record in bytes */
	char *records = NULL;
	long len = BIO_get_mem_data(gathered, &records);
	raw_send(other.fd, records, (size_t)len);
	expect_end(&passive, -1);
	assert_int_equal(ioctl(passive.fd, FIONREAD, &unread), 0);
	assert_true(unread > 0);
	assert_int_equal(softrdma_tls_peek(passive.tls, &byte, 1), -1);
	assert_int_equal(errno, ECONNRESET);
	other_fini(&other, &passive);
}

/*
 * A first message of the greatest length that OpenSSL accepts, in records of one byte. Each call is limited,
 * and asks to be called again.
 */
static void
test_handshake_in_pieces(void **state)
{
	(void)state;
	struct ends e;
	static const uint8_t hello[] = { 1, 1, 0xff, 0xff }; /* its type, and a length of 128 KiB */
	static uint8_t records[3 * SOFTRDMA_TLS_READ_MAX / 6][6];
	ends_init(&e, node, node);
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
		const uint8_t record[6] = { 22, 3, 1, 0, 1, i < sizeof(hello) ? hello[i] : 3 };
		memcpy(records[i], record, sizeof(record));
	}
	raw_send(e.active.fd, records, sizeof(records));
	for (int left = sizeof(records); left > 0;) {
		int unread = 0;
		assert_int_equal(softrdma_tls_handshake(e.passive.tls), EAGAIN);
		assert_int_equal(ioctl(e.passive.fd, FIONREAD, &unread), 0);
		assert_in_range(left - unread, 1, SOFTRDMA_TLS_READ_MAX);
		assert_true(softrdma_tls_is_unread(e.passive.tls) || unread == 0);
		left = unread;
	}
	/* either the last call found the socket empty, or the next one does */
	assert_int_equal(softrdma_tls_handshake(e.passive.tls), EAGAIN);
	assert_false(softrdma_tls_is_unread(e.passive.tls));
	assert_false(softrdma_tls_has_input(e.passive.tls));
	ends_fini(&e);
}

static int
wakes_at(const struct end *end)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);
	assert_int_equal(getsockopt(end->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, &len), 0);
	return bytes;
}

/* while a record arrives slowly, the socket wakes the reader only when all of it is there */
static void
test_handshake_that_creeps(void **state)
{
	(void)state;
	enum { header = 5 };
	static uint8_t hello[4096];
	struct ends e;
	ends_init(&e, node, node);
	step(&e.active);
	ssize_t len = recv(e.passive.fd, hello, sizeof(hello), 0);
	assert_in_range(len, header + 4, sizeof(hello) - 1);
	assert_int_equal(hello[3] << 8 | hello[4], len - header); /* a single record */
	step(&e.passive);
	assert_int_equal(wakes_at(&e.passive), header);
	raw_send(e.active.fd, hello, 3);
	step(&e.passive);
	assert_int_equal(wakes_at(&e.passive), header - 3);
	raw_send(e.active.fd, hello + 3, header - 3 + 1);
	step(&e.passive);
	assert_int_equal(wakes_at(&e.passive), len - header - 1);
	raw_send(e.active.fd, hello + header + 1, (size_t)len - header - 1);
	ends_agree(&e);
	assert_int_equal(wakes_at(&e.active), 1);
	assert_int_equal(wakes_at(&e.passive), 1);
	expect_passes(&e.active, &e.passive, 1);
	ends_fini(&e);
}

/*
 * an active side chooses the key exchange, and with it the cost for an untrusted peer: costly groups are not
 * offered
 */
static void
test_costly_groups(void **state)
{
	(void)state;
	static const char *const groups[] = { "X25519", "P-256", "ffdhe2048", "ffdhe8192", "P-521" };
	for (unsigned i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		struct other other;
		struct end passive;
		other_begin(&other, &passive);
		assert_int_equal(SSL_set1_groups_list(other.ssl, groups[i]), 1);
		other_connects(&other, &passive);
		assert_int_equal(passive.error, i < 2 ? 0 : ECONNRESET);
		other_fini(&other, &passive);
	}
}

/* more certificates than any real chain has */
static void
test_long_chain(void **state)
{
	(void)state;
	struct other other;
	struct end passive;
	other_begin(&other, &passive);
	X509 *own = SSL_get_certificate(other.ssl);
	for (int i = 0; i < 40; i++)
		assert_int_equal(SSL_add1_chain_cert(other.ssl, own), 1);
	other_connects(&other, &passive);
	assert_int_equal(passive.error, ECONNRESET);
	assert_non_null(strstr(softrdma_tls_why(passive.tls), "excessive message size"));
	other_fini(&other, &passive);
}

/* a listener that closes sends close_notify on established connections, and signs nothing for the others */
static void
test_send_before_agreed(void **state)
{
	(void)state;
	struct ends e;
	int unread = -1;
	ends_init(&e, node, node);
	assert_int_equal(softrdma_tls_handshake(e.active.tls), EAGAIN);
	assert_int_equal(softrdma_tls_send(e.passive.tls, "no", 2), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(ioctl(e.active.fd, FIONREAD, &unread), 0);
	assert_int_equal(unread, 0);
	ends_fini(&e);
}

/* a peer that is not the device may ask for a response before anything else can be read */
static void
test_answer_without_room(void **state)
{
	(void)state;
	struct ends e;
	struct other other;
	other_init(&other, &e.passive);
	SSL *ssl = other.ssl;
	assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	assert_int_equal(SSL_write(ssl, "word", 4), 4);
	fail_call(FAIL_MINE, "send", 0, 1, EAGAIN);
	char word[8];
	ssize_t n = softrdma_tls_recv(e.passive.tls, word, sizeof(word));
	if (n < 0) { /* OpenSSL may also respond later, or stop after each record without data */
		assert_int_equal(errno, EAGAIN);
		assert_true(softrdma_tls_wants_space(e.passive.tls) || softrdma_tls_is_unread(e.passive.tls));
		fail_nothing();
		n = recv_unread(e.passive.tls, word, sizeof(word));
	}
	fail_nothing();
	assert_int_equal(n, 4);
	assert_memory_equal(word, "word", 4);
	assert_false(softrdma_tls_wants_space(e.passive.tls));
	assert_int_equal(softrdma_tls_send(e.passive.tls, "answer", 6), 6);
	assert_int_equal(SSL_read(ssl, word, sizeof(word)), 6);
	assert_memory_equal(word, "answer", 6);
	other_fini(&other, &e.passive);
}

static void
test_no_memory(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials = NULL;
	struct softrdma_tls *tls;
	assert_int_equal(softrdma_credentials_of_environment(&credentials), 0); /* no credentials */
	no_memory_in = "SSL_CTX_new";
	node();
	assert_int_equal(softrdma_credentials_of_environment(&credentials), ENOMEM);
	same_psk();
	assert_int_equal(softrdma_credentials_of_environment(&credentials), ENOMEM);
	no_memory_in = NULL;
	assert_int_equal(softrdma_credentials_of_environment(&credentials), 0);
	fail_call(FAIL_MINE, "calloc", 0, 1, ENOMEM);
	assert_int_equal(softrdma_tls_new(credentials->context, 0, true, &tls), ENOMEM);
	fail_nothing();
	const char *const calls[] = { "SSL_new", "BIO_new" };
	for (int i = 0; i < 2; i++) {
		no_memory_in = calls[i];
		assert_int_equal(softrdma_tls_new(credentials->context, 0, true, &tls), ENOMEM);
	}
	no_memory_in = NULL;
	softrdma_credentials_put(credentials);

	struct ends e;
	ends_init(&e, same_psk, same_psk);
	no_memory_in = "SSL_SESSION_new";
	ends_shake(&e);
	no_memory_in = NULL;
	assert_int_equal(e.active.error, ECONNRESET);
	assert_string_not_equal(softrdma_tls_why(e.active.tls), "");
	ends_fini(&e);
	softrdma_tls_delete(NULL);
}

/* --- connections of the device --- */

static void
post_rdma(struct ibv_qp *qp, uint64_t wr_id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
	const void *remote)
{
	struct ibv_send_wr *bad,
		wr = { .wr_id = wr_id,
			.opcode = opcode,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = the_mr->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
}

/* transfers the whole memory by one write, and back by a read */
static void
expect_memory_moves(struct ibv_qp *qp)
{
	const unsigned half = MEM_SIZE / 2;
	for (int read = 0; read < 2; read++) {
		uint8_t *from = read ? the_mem + half : the_mem;
		uint8_t *to = read ? the_mem : the_mem + half;
		struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = half, .lkey = the_mr->lkey };
		for (unsigned i = 0; i < half; i++)
			from[i] = (uint8_t)(i * 13 + i / 256 + (unsigned)read);
		memset(to, 0, half);
		post_rdma(qp, 77, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, sge, the_mem + half);
		expect_wc(77, IBV_WC_SUCCESS);
		assert_memory_equal(from, to, half);
	}
}

static void
test_connection(void **state)
{
	(void)state;
	void (*const credentials[])(void) = { node, same_psk };
	for (int i = 0; i < 2; i++) {
		struct pair_of_ids p;
		credentials[i]();
		pair_init(&p);
		assert_true(locked(softrdma_qp_of(p.active->qp)->link,
			softrdma_connection_of(softrdma_qp_of(p.active->qp)->link)->encrypted));
		expect_memory_moves(p.active->qp);
		expect_memory_moves(p.passive->qp);
		assert_int_equal(softrdma_rdma_disconnect(p.active), 0);
		expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
		pair_fini(&p);
		assert_int_equal(log_worst, 0);
	}
	use_certificates(NULL, NULL, NULL);
}

/* a connection over TLS, and a write whose record the socket does not take; returns the writer's link */
static struct softrdma_link *
write_not_taken(struct pair_of_ids *p, uint64_t wr_id, int error)
{
	node();
	pair_init(p);
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = 8, .lkey = the_mr->lkey };
	memcpy(the_mem, "a record", 8);
	fail_call(FAIL_MINE, "send", 0, FAIL_FOR_EVER, error);
	post_rdma(p->active->qp, wr_id, IBV_WR_RDMA_WRITE, sge, the_mem + 64);
	return softrdma_qp_of(p->active->qp)->link;
}

/*
 * a record that counts as sent but does not fit into the socket is sent when there is room, even if nothing
 * follows
 */
static void
test_rest_of_a_record(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct softrdma_link *link = write_not_taken(&p, 78, EAGAIN);
	assert_int_not_equal(fail_nothing(), 0);
	assert_true(locked(link, softrdma_connection_of(link)->wants_space));
	expect_wc(78, IBV_WC_SUCCESS);
	assert_memory_equal(the_mem + 64, "a record", 8);
	pair_fini(&p);
	use_certificates(NULL, NULL, NULL);
}

/* a record that counts as sent and can never be sent ends the connection, even if nothing follows */
static void
test_record_that_cannot_leave(void **state)
{
	(void)state;
	struct pair_of_ids p;
	struct softrdma_link *link = write_not_taken(&p, 79, ENOMEM);
	assert_int_equal(fail_nothing(), 1);
	/* at once, because the socket may never be served again */
	assert_true(locked(link, softrdma_connection_of(link)->fin_sent));
	expect_event(p.listener.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	expect_wc(79, IBV_WC_RETRY_EXC_ERR);
	pair_fini(&p);
	use_certificates(NULL, NULL, NULL);
}

/* --- sockets that are really full --- */

/* more than the sockets hold, and more than the device encrypts at once (SOFTRDMA_TX_BYTES) */
#define LONG_SIZE ((size_t)2 << 20)
#define LONG_SEED 0x71
#define BUFFER_SIZE 65536
#define WORD_SIZE ((size_t)10000)

/* the device on one side; on the other a peer that uses TLS and builds its frames itself */
struct half {
	struct listener listener; /* of a device on the passive side */
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct end peer;
	struct ibv_mr *mr; /* of the message that is too long for the sockets */
	uint8_t *mem;
	uint32_t seq; /* of the peer's next request */
};

/*
 * Receives len bytes. If the result is less, the stream has ended; peer->error is 0 if close_notify came
 * before.
 */
static size_t
peer_recv(struct end *peer, void *buf, size_t len)
{
	size_t have = 0;
	while (have < len) {
		ssize_t n = softrdma_tls_recv(peer->tls, (uint8_t *)buf + have, len - have);
		peer->error = n < 0 ? errno : 0;
		if (n > 0)
			have += (size_t)n;
		else if (peer->error == EAGAIN)
			assert_true(readable(peer->fd, PATIENCE_MS));
		else
			break;
	}
	return have;
}

static void
peer_send(const struct end *peer, const void *buf, size_t len)
{
	assert_int_equal(softrdma_tls_send(peer->tls, buf, len), len);
}

static void
peer_send_frame(const struct end *peer, const struct softrdma_frame *frame, const void *payload)
{
	uint8_t buf[SOFTRDMA_FRAME_SIZE + WORD_SIZE];
	softrdma_frame_encode(frame, buf);
	if (frame->length)
		memcpy(buf + SOFTRDMA_FRAME_SIZE, payload, frame->length);
	peer_send(peer, buf, SOFTRDMA_FRAME_SIZE + frame->length);
}

static void
peer_init(struct end *peer, int fd, bool active)
{
	const int size = BUFFER_SIZE;
	end_init(peer, fd, active);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	for (step(peer); peer->error == EAGAIN; step(peer))
		assert_true(readable(fd, PATIENCE_MS));
	assert_int_equal(peer->error, 0);
}

static void
meet_active_device(struct half *h)
{
	uint8_t buf[BUF_MAX];
	struct sockaddr_in addr;
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	int listening = raw_listen(&addr);
	h->channel = new_channel();
	h->id = new_active(h->channel, &addr);
	assert_int_equal(softrdma_rdma_connect(h->id, &param), 0);
	peer_init(&h->peer, raw_accept(listening), false);
	close(listening);
	assert_int_equal(peer_recv(&h->peer, buf, SOFTRDMA_HANDSHAKE_SIZE), SOFTRDMA_HANDSHAKE_SIZE);
	peer_send(&h->peer, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_ACCEPT, ""));
	expect_event(h->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(peer_recv(&h->peer, buf, SOFTRDMA_FRAME_SIZE), SOFTRDMA_FRAME_SIZE);
	assert_int_equal(buf[0], SOFTRDMA_OP_READY);
}

static void
meet_passive_device(struct half *h)
{
	static const struct softrdma_frame ready = { .opcode = SOFTRDMA_OP_READY };
	uint8_t buf[BUF_MAX];
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	listener_init(&h->listener);
	h->channel = h->listener.channel;
	peer_init(&h->peer, raw_connect(&h->listener.addr), true);
	peer_send(&h->peer, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, ""));
	h->id = expect_event(h->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(h->id);
	assert_int_equal(softrdma_rdma_accept(h->id, &param), 0);
	assert_int_equal(peer_recv(&h->peer, buf, SOFTRDMA_HANDSHAKE_SIZE), SOFTRDMA_HANDSHAKE_SIZE);
	peer_send_frame(&h->peer, &ready, NULL);
	expect_event(h->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void
half_init(struct half *h, bool active)
{
	memset(h, 0, sizeof(*h));
	h->seq = 100; /* as in raw_message() */
	h->mem = malloc(LONG_SIZE);
	assert_non_null(h->mem);
	pattern_fill(h->mem, LONG_SIZE, LONG_SEED, 0);
	h->mr = softrdma_ibv_reg_mr(the_pd, h->mem, LONG_SIZE, IBV_ACCESS_REMOTE_READ);
	assert_non_null(h->mr);
	node();
	if (active)
		meet_active_device(h);
	else
		meet_passive_device(h);
}

static void
half_fini(struct half *h)
{
	if (h->id)
		destroy(h->id);
	end_fini(&h->peer);
	if (h->listener.id)
		listener_fini(&h->listener);
	else
		softrdma_rdma_destroy_event_channel(h->channel);
	assert_int_equal(softrdma_ibv_dereg_mr(h->mr), 0);
	free(h->mem);
	use_certificates(NULL, NULL, NULL);
}

/* true if at least a part of a record is unsent, and the socket is full */
static bool
is_stuck(struct softrdma_link *link)
{
	int fd = locked(link, softrdma_connection_of(link)->fd);
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	return locked(link, softrdma_stream_wants_space(softrdma_connection_of(link)->stream)) &&
		poll(&pfd, 1, 0) == 0;
}

/* the device sends more than the peer takes, either by a request of its own or in response to a READ */
static void
fill_sockets(struct half *h, bool read)
{
	struct softrdma_link *link = softrdma_qp_of(h->id->qp)->link;
	const int size = BUFFER_SIZE;
	assert_int_equal(setsockopt(locked(link, softrdma_connection_of(link)->fd), SOL_SOCKET, SO_SNDBUF,
				 &size, sizeof(size)),
		0);
	if (read) {
		const struct softrdma_frame ask = { .opcode = SOFTRDMA_OP_READ,
			.seq = h->seq++,
			.key = h->mr->rkey,
			.addr = (uintptr_t)h->mem,
			.arg = LONG_SIZE };
		peer_send_frame(&h->peer, &ask, NULL);
	} else {
		struct ibv_sge sge = { .addr = (uintptr_t)h->mem, .length = LONG_SIZE, .lkey = h->mr->lkey };
		post_rdma(h->id->qp, 5, IBV_WR_RDMA_WRITE, sge, the_mem);
	}
	wait_until(is_stuck(link));
}

/* the device receives from the peer even if it cannot send */
static void
expect_heard(struct half *h)
{
	static uint8_t word[WORD_SIZE];
	struct softrdma_link *link = softrdma_qp_of(h->id->qp)->link;
	struct ibv_sge sge = { .addr = (uintptr_t)the_mem, .length = MEM_SIZE, .lkey = the_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 6, .sg_list = &sge, .num_sge = 1 };
	const struct softrdma_frame send = { .opcode = SOFTRDMA_OP_SEND,
		.flags = SOFTRDMA_FRAME_FIRST | SOFTRDMA_FRAME_LAST,
		.seq = h->seq++,
		.length = WORD_SIZE };
	assert_int_equal(ibv_post_recv(h->id->qp, &wr, &bad), 0);
	pattern_fill(word, sizeof(word), h->seq, 0);
	peer_send_frame(&h->peer, &send, word);
	expect_wc(6, IBV_WC_SUCCESS);
	assert_memory_equal(the_mem, word, sizeof(word));
	assert_true(is_stuck(link));
}

struct rest {
	size_t bytes; /* of the long message */
	uint32_t seq;
	bool farewell;
};

/* The peer reads until it has the whole long message, or until the stream ends. Every byte must be right. */
static struct rest
take_rest(struct half *h)
{
	static uint8_t payload[SOFTRDMA_SEGMENT_MAX];
	struct rest rest = { .bytes = 0 };
	struct softrdma_frame frame;
	uint8_t header[SOFTRDMA_FRAME_SIZE];
	while (rest.bytes < LONG_SIZE && peer_recv(&h->peer, header, sizeof(header)) == sizeof(header)) {
		assert_false(rest.farewell);
		assert_true(softrdma_frame_decode(header, &frame));
		rest.farewell = frame.opcode == SOFTRDMA_OP_DISCONNECT;
		if (rest.farewell || frame.opcode == SOFTRDMA_OP_ACK)
			continue;
		assert_true(frame.opcode == SOFTRDMA_OP_WRITE || frame.opcode == SOFTRDMA_OP_READ_RESPONSE);
		rest.seq = frame.seq;
		size_t n = peer_recv(&h->peer, payload, frame.length);
		assert_int_equal(pattern_check(payload, n, LONG_SEED, rest.bytes), -1);
		rest.bytes += n;
	}
	return rest;
}

static void
expect_announced_end(struct half *h)
{
	uint8_t byte;
	assert_int_equal(peer_recv(&h->peer, &byte, 1), 0);
	assert_int_equal(h->peer.error, 0);
}

static void
expect_farewell(struct half *h)
{
	uint8_t header[SOFTRDMA_FRAME_SIZE];
	do {
		assert_int_equal(peer_recv(&h->peer, header, sizeof(header)), sizeof(header));
	} while (header[0] == SOFTRDMA_OP_ACK);
	assert_int_equal(header[0], SOFTRDMA_OP_DISCONNECT);
	expect_announced_end(h);
}

/* a part of the long message has arrived, and then the end of the stream */
static void
expect_part(struct half *h)
{
	struct rest rest = take_rest(h);
	assert_true(rest.bytes > 0 && rest.bytes < LONG_SIZE);
}

static void
end_of_peer(struct half *h)
{
	assert_true(end_output(h->peer.tls));
	expect_event(h->channel, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* --- events while they are full --- */

static void
peer_reads(struct half *h, bool read)
{
	struct rest rest = take_rest(h);
	assert_int_equal(rest.bytes, LONG_SIZE);
	if (!read) {
		const struct softrdma_frame ack = { .opcode = SOFTRDMA_OP_ACK, .seq = rest.seq };
		peer_send_frame(&h->peer, &ack, NULL);
		expect_wc(5, IBV_WC_SUCCESS);
	}
	assert_int_equal(softrdma_rdma_disconnect(h->id), 0);
	expect_farewell(h);
	end_of_peer(h);
}

static void
device_disconnects(struct half *h, bool read)
{
	assert_int_equal(softrdma_rdma_disconnect(h->id), 0);
	if (!read)
		expect_wc(5, IBV_WC_WR_FLUSH_ERR);
	expect_part(h);
	expect_announced_end(h);
	end_of_peer(h);
}

static void
device_goes(struct half *h, bool read)
{
	(void)read;
	destroy(h->id);
	h->id = NULL;
	expect_part(h);
	assert_int_equal(h->peer.error, ECONNRESET); /* the device is gone, so it cannot wait for room */
}

static void
peer_disconnects(struct half *h, bool read)
{
	static const struct softrdma_frame disconnect = { .opcode = SOFTRDMA_OP_DISCONNECT };
	peer_send_frame(&h->peer, &disconnect, NULL);
	expect_event(h->channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (read) { /* the responses to its requests still arrive */
		assert_int_equal(take_rest(h).bytes, LONG_SIZE);
		expect_farewell(h);
	} else {
		expect_wc(5, IBV_WC_WR_FLUSH_ERR);
		expect_part(h);
		expect_announced_end(h);
	}
}

static void
peer_goes(struct half *h, bool read)
{
	close(h->peer.fd);
	h->peer.fd = -1;
	if (!read)
		expect_wc(5, IBV_WC_RETRY_EXC_ERR);
	expect_event(h->channel, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/*
 * whatever happens, no byte is lost or wrong, neither of those in the sockets nor of those that had to wait
 */
static void
test_full_both_ways(void **state)
{
	(void)state;
	static void (*const events[])(struct half * h, bool read) = { peer_reads, device_disconnects,
		device_goes, peer_disconnects, peer_goes };
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		for (int variant = 0; variant < 4; variant++) {
			const bool active = variant & 1, read = variant & 2;
			struct half h;
			half_init(&h, active);
			fill_sockets(&h, read);
			expect_heard(&h);
			events[i](&h, read);
			half_fini(&h);
		}
	}
}

/* close_notify finds no room: it is sent as soon as there is some, without any other reason */
static void
test_end_without_room(void **state)
{
	(void)state;
	struct half h;
	half_init(&h, true);
	struct softrdma_link *link = softrdma_qp_of(h.id->qp)->link;
	/* the socket was borrowed once: from then on the link waits for room only when it needs some */
	wait_until(locked(link, softrdma_reader_borrow(softrdma_connection_of(link))));
	pthread_mutex_lock(&link->lock);
	softrdma_reader_return(softrdma_connection_of(link));
	pthread_mutex_unlock(&link->lock);
	fail_call(FAIL_MINE, "send", 1, 1, EAGAIN); /* after DISCONNECT */
	assert_int_equal(softrdma_rdma_disconnect(h.id), 0);
	assert_int_equal(fail_nothing(), 1);
	expect_farewell(&h);
	end_of_peer(&h);
	half_fini(&h);
}

/* --- refused connections --- */

/*
 * A client with these credentials is refused by a server with those. The client's program gets an event, the
 * server's does not.
 */
static void
expect_rejected(void (*client)(void), void (*server)(void), int status, const char *client_log,
	const char *server_log)
{
	struct listener l;
	log_clear();
	server();
	listener_init(&l);
	client();
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, status);
	wait_for_log(client_log);
	wait_for_log(server_log);
	expect_no_event(l.channel);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

static void
nothing(void)
{
	use_certificates(NULL, NULL, NULL);
}

static void
test_rejected(void **state)
{
	(void)state;
	expect_rejected(nothing, node, SOFTRDMA_REJECT_PLAIN,
		"speaks TLS only, and this side has no credentials for it",
		"does not use TLS, as it must here");
	expect_rejected(node, nothing, -EPROTO, "it has ended the connection, and may not use TLS",
		"speaks TLS, which this listener was given no credentials for");
	expect_rejected(stranger, node, -EPROTO, OWN_OF_OTHER_CA, PEER_OF_OTHER_CA);
	expect_rejected(node, stranger, -EPROTO, PEER_OF_OTHER_CA, OWN_OF_OTHER_CA);
	expect_rejected(expired, node, -EPROTO, "this side's certificate has expired",
		"the peer's certificate has expired");
	expect_rejected(same_psk, other_psk, -EPROTO, KEYS_DIFFER, KEYS_DIFFER);
}

/* if the credentials in the environment are unusable, calls fail instead of going on without them */
static void
test_bad_settings(void **state)
{
	(void)state;
	struct sockaddr_in any = loopback(0);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_id(channel);
	assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	use_certificates("node", NULL, "ca");
	assert_int_equal(softrdma_rdma_listen(id, 0), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	id = new_active(channel, &any);
	assert_int_equal(softrdma_rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	wait_for_log("SOFTRDMA_TLS_KEY is not set, but SOFTRDMA_TLS_CA is");
	use_certificates(NULL, NULL, NULL);
}

/* a listener that other machines can reach logs a warning, once for each listener */
static void
test_warning(void **state)
{
	(void)state;
	static const struct {
		const char *addr;
		bool warned;
	} cases[] = { { "0.0.0.0", true }, { "127.0.0.1", false }, { "127.1.2.3", false } };
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct sockaddr_in addr = loopback(0);
			struct rdma_event_channel *channel = new_channel();
			struct rdma_cm_id *id = new_id(channel);
			log_clear();
			if (with_tls)
				node();
			assert_int_equal(inet_pton(AF_INET, cases[i].addr, &addr.sin_addr), 1);
			assert_int_equal(softrdma_rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
			assert_int_equal(softrdma_rdma_listen(id, 0), 0);
			bool warned = cases[i].warned && !with_tls;
			assert_int_equal(log_has("without TLS: nothing is encrypted"), warned);
			assert_int_equal(log_worst, warned ? SOFTRDMA_LOG_WARNING : 0);
			destroy(id);
			softrdma_rdma_destroy_event_channel(channel);
		}
	}
	use_certificates(NULL, NULL, NULL);
}

/* a client with a certificate that the listener trusts from now on; the test answers its request */
static void
expect_welcome(const struct listener *l)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l->addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	struct rdma_cm_id *request = expect_event(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(softrdma_rdma_reject(request, NULL, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_CONSUMER);
	destroy(request);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

static void
expect_unwelcome(const struct listener *l)
{
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l->addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, -EPROTO);
	expect_no_event(l->channel);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
}

/* a listener goes by what its files have when a client comes, and a connection that is there goes on */
static void
test_renewed(void **state)
{
	(void)state;
	struct listener l;
	replace_file("ca", "trusted", ".pem");
	use_certificates("node", "node", "trusted");
	listener_init(&l);
	node();
	expect_welcome(&l);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *waiting = new_active(channel, &l.addr);
	assert_int_equal(softrdma_rdma_connect(waiting, NULL), 0);
	struct rdma_cm_id *request = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	stranger();
	expect_unwelcome(&l);
	replace_file("other-ca", "trusted", ".pem");
	expect_welcome(&l);
	node();
	expect_unwelcome(&l);

	assert_int_equal(softrdma_rdma_reject(request, NULL, 0), 0);
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_CONSUMER);
	destroy(request);
	destroy(waiting);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

/* an id's own credentials have priority over the environment */
static void
test_of_an_id(void **state)
{
	(void)state;
	struct softrdma_credentials *credentials = NULL;
	assert_int_equal(softrdma_credentials_load(file_path("node", ".pem"), file_path("node", ".key"),
				 file_path("ca", ".pem"), &credentials),
		0);
	struct listener l;
	struct sockaddr_in any = loopback(0);
	stranger();
	l.channel = new_channel();
	l.id = new_id(l.channel);
	assert_int_equal(softrdma_rdma_bind_addr(l.id, (struct sockaddr *)&any), 0);
	softrdma_rdma_set_credentials(l.id, NULL);
	softrdma_rdma_set_credentials(l.id, credentials);
	softrdma_rdma_set_credentials(l.id, credentials);
	assert_int_equal(softrdma_rdma_listen(l.id, 0), 0);
	l.addr = l.id->route.addr.src_sin;

	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	softrdma_rdma_set_credentials(id, credentials);
	softrdma_credentials_put(credentials);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	struct rdma_cm_id *request = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	assert_int_equal(softrdma_rdma_reject(request, "no", 2), 0);
	struct rdma_cm_event *event = take_event(channel, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(event->status, SOFTRDMA_REJECT_CONSUMER);
	assert_int_equal(event->param.conn.private_data_len, 2);
	softrdma_rdma_ack_cm_event(event);
	destroy(request);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

/* the first message of one of our clients */
static size_t
client_hello(uint8_t *bytes, size_t size)
{
	struct sockaddr_in addr;
	int listening = raw_listen(&addr);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	int fd = raw_accept(listening);
	assert_true(readable(fd, PATIENCE_MS));
	ssize_t n = recv(fd, bytes, size, 0);
	assert_true(n > 100);
	assert_int_equal(bytes[0], 22);
	/* a server that responds in plain text, as ours does when it has no room */
	uint8_t buf[BUF_MAX];
	raw_send(fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_REJECT, ""));
	expect_event(channel, RDMA_CM_EVENT_REJECTED, -EPROTO);
	wait_for_log("does not use TLS, as this side must");
	close(fd);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	close(listening);
	return (size_t)n;
}

/* the end of the stream, perhaps after an alert */
static void
expect_no_more(int fd)
{
	char bytes[64];
	ssize_t n;
	do {
		assert_true(readable(fd, PATIENCE_MS));
		n = recv(fd, bytes, sizeof(bytes), 0);
	} while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
}

/* input that is not TLS, or is incomplete, never reaches the program and is not kept */
static void
test_hostile(void **state)
{
	(void)state;
	struct listener l;
	uint8_t hello[2048];
	node();
	size_t len = client_hello(hello, sizeof(hello));
	listener_init(&l);

	int fd = raw_connect(&l.addr);
	raw_send(fd, "GET / HTTP/1.0\r\n\r\n", 18);
	expect_no_more(fd);
	close(fd);
	wait_for_log("no TLS with 127.0.0.1:");

	log_clear();
	fd = raw_connect(&l.addr); /* connects and leaves */
	shutdown(fd, SHUT_WR);
	expect_no_more(fd);
	close(fd);
	assert_int_equal(log_worst, 0);

	for (size_t at = 1; at < len; at += 37) { /* cut within the first message */
		fd = raw_connect(&l.addr);
		raw_send(fd, hello, at);
		shutdown(fd, SHUT_WR);
		expect_no_more(fd);
		close(fd);
	}

	fd = raw_connect(&l.addr); /* damaged */
	hello[60] ^= 0xff;
	hello[len / 2] ^= 0xff;
	raw_send(fd, hello, len);
	shutdown(fd, SHUT_WR);
	expect_no_more(fd);
	close(fd);

	fd = raw_connect(&l.addr); /* the first half, and then nothing */
	raw_send(fd, hello, len / 2);
	clock_forward_ms(SOFTRDMA_HANDSHAKE_TIMEOUT_MS);
	expect_no_more(fd);
	close(fd);
	wait_for_log("did not finish its request in time: connection closed");

	int silent = raw_connect(&l.addr); /* still silent when the listener is closed */
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	expect_event(channel, RDMA_CM_EVENT_REJECTED, SOFTRDMA_REJECT_CONSUMER);
	expect_no_event(l.channel);
	listener_fini(&l);
	expect_no_more(silent);
	close(silent);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	use_certificates(NULL, NULL, NULL);
}

/* an unknown extension, which makes the first message long */
static int
add_long_extension(SSL *ssl, unsigned type, unsigned context, const unsigned char **out, size_t *len, X509 *x,
	size_t chain, int *alert, void *arg)
{
	static const unsigned char nothing[SOFTRDMA_TLS_READ_MAX / 3];
	(void)ssl;
	(void)type;
	(void)context;
	(void)x;
	(void)chain;
	(void)alert;
	(void)arg;
	*out = nothing;
	*len = sizeof(nothing);
	return 1;
}

/*
 * A handshake whose first message comes in more records of one byte than one turn takes. No edge reports the
 * rest, but the connection must be established.
 */
static void
test_long_handshake(void **state)
{
	(void)state;
	struct listener l;
	uint8_t buf[BUF_MAX], *first;
	static uint8_t records[SOFTRDMA_TLS_READ_MAX][6];
	node();
	listener_init(&l);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	assert_int_equal(SSL_CTX_use_certificate_file(ctx, file_path("node", ".pem"), SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, file_path("node", ".key"), SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_add_custom_ext(ctx, 0xfff0, SSL_EXT_CLIENT_HELLO, add_long_extension, NULL,
				 NULL, NULL, NULL),
		1);
	SSL *ssl = SSL_new(ctx);
	BIO *gathered = BIO_new(BIO_s_mem());
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), gathered);
	assert_int_equal(SSL_connect(ssl), -1);
	long len = BIO_get_mem_data(gathered, (char **)&first);
	assert_in_range(len, SOFTRDMA_TLS_READ_MAX / 3, SOFTRDMA_TLS_READ_MAX);
	for (long i = 5; i < len; i++) {
		const uint8_t record[6] = { 22, 3, 1, 0, 1, first[i] };
		memcpy(records[i - 5], record, sizeof(record));
	}
	int fd = raw_connect(&l.addr);
	softrdma_cm_lock(); /* all of it arrives before any of it is read */
	raw_send(fd, records, (size_t)(len - 5) * sizeof(records[0]));
	softrdma_cm_unlock();
	SSL_set_fd(ssl, fd);
	assert_int_equal(SSL_connect(ssl), 1);
	len = (long)raw_message(buf, SOFTRDMA_HANDSHAKE_CONNECT, "");
	assert_int_equal(SSL_write(ssl, buf, (int)len), len);
	destroy(expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

/* both sides are trusted, and then the client leaves without close_notify */
static void
test_client_leaves(void **state)
{
	(void)state;
	struct listener l;
	char byte;
	node();
	listener_init(&l);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	assert_int_equal(SSL_CTX_use_certificate_file(ctx, file_path("node", ".pem"), SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, file_path("node", ".key"), SSL_FILETYPE_PEM), 1);
	SSL *ssl = SSL_new(ctx);
	int fd = raw_connect(&l.addr);
	SSL_set_fd(ssl, fd);
	assert_int_equal(SSL_connect(ssl), 1);
	log_clear();
	assert_true(SSL_shutdown(ssl) >= 0);
	while (recv(fd, &byte, 1, 0) > 0) /* until the server has closed as well */
		;
	assert_false(log_has("no TLS with"));
	expect_no_event(l.channel);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

/* a server that never responds */
static void
test_server_is_silent(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	int listening = raw_listen(&addr);
	node();
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	int fd = raw_accept(listening);
	assert_true(readable(fd, PATIENCE_MS));
	clock_forward_ms(SOFTRDMA_PEER_TIMEOUT_MS);
	expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	close(fd);
	close(listening);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	use_certificates(NULL, NULL, NULL);
}

static void
test_without_memory(void **state)
{
	(void)state;
	struct listener l;
	node();
	listener_init(&l);
	const uint64_t before = count_refused(&l, SOFTRDMA_REFUSED_BUSY);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	no_memory_in = "BIO_new";
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	expect_event(channel, RDMA_CM_EVENT_UNREACHABLE, -ENOMEM);
	destroy(id);
	int fd = raw_connect(&l.addr);
	raw_expect_end(fd);
	close(fd);
	no_memory_in = NULL;
	wait_for_log("an incoming connection is dropped: Cannot allocate memory");
	/* the listener has dropped the connection of the id, too, which came before */
	assert_int_equal(count_refused(&l, SOFTRDMA_REFUSED_BUSY), before + 2);
	expect_no_event(l.channel);
	softrdma_rdma_destroy_event_channel(channel);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

/* the client is gone before it is accepted, with or without close_notify */
static void
test_gone_before_accept(void **state)
{
	(void)state;
	struct listener l;
	node();
	listener_init(&l);
	struct rdma_event_channel *channel = new_channel();
	struct rdma_cm_id *id = new_active(channel, &l.addr);
	assert_int_equal(softrdma_rdma_connect(id, NULL), 0);
	struct rdma_cm_id *request = expect_event(l.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	give_qp(request);
	destroy(id);
	softrdma_rdma_destroy_event_channel(channel);
	assert_int_equal(softrdma_rdma_accept(request, NULL), 0);
	struct rdma_cm_event *event;
	assert_true(readable(l.channel->fd, PATIENCE_MS));
	assert_int_equal(softrdma_rdma_get_cm_event(l.channel, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_ERROR);
	softrdma_rdma_ack_cm_event(event);
	destroy(request);
	listener_fini(&l);
	use_certificates(NULL, NULL, NULL);
}

/* --- registered memory --- */

/* a truncated file: its bytes are neither read nor written, and the process survives */
static void
test_memory_that_has_gone(void **state)
{
	(void)state;
	const size_t size = 8192;
	for (int read = 0; read < 2; read++) {
		struct pair_of_ids p;
		FILE *file = tmpfile();
		assert_true(file && ftruncate(fileno(file), (off_t)size) == 0);
		void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
		assert_ptr_not_equal(mem, MAP_FAILED);
		struct ibv_mr *mr = softrdma_ibv_reg_mr(the_pd, mem, size, IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(mr);
		node();
		pair_init(&p);
		assert_int_equal(ftruncate(fileno(file), 0), 0);
		struct ibv_sge sge = { .addr = (uintptr_t)mem, .length = (uint32_t)size, .lkey = mr->lkey };
		post_rdma(p.active->qp, 5, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, sge, the_mem);
		expect_wc(5, IBV_WC_LOC_PROT_ERR);
		pair_fini(&p);
		assert_int_equal(softrdma_ibv_dereg_mr(mr), 0);
		munmap(mem, size);
		fclose(file);
	}
	use_certificates(NULL, NULL, NULL);
}

/* --- without the connection manager --- */

static void
test_by_hand(void **state)
{
	(void)state;
	struct hands h;
	node();
	hands_init(&h, AF_INET);
	hands_meet(&h);
	assert_true(locked(softrdma_qp_of(h.a)->link,
		softrdma_connection_of(softrdma_qp_of(h.a)->link)->encrypted));
	expect_write(h.a);
	expect_write(h.b);
	hands_fini(&h);
	use_certificates(NULL, NULL, NULL);
}

/* a connection with another kind of stream than the listener expects */
static void
test_by_hand_refuses(void **state)
{
	(void)state;
	union softrdma_address door;
	struct hands h;
	uint8_t buf[BUF_MAX];
	node();
	hands_init(&h, AF_INET);
	to_rtr(h.a, &h.gid, h.b->qp_num, PSN_B);
	assert_true(softrdma_gid_locate(&h.gid, 0, &door));

	int fd = raw_connect(&door.in);
	raw_send(fd, buf, raw_message(buf, SOFTRDMA_HANDSHAKE_JOIN, ""));
	raw_expect_reject(fd, SOFTRDMA_REJECT_PLAIN);
	close(fd);
	wait_for_log("does not use TLS, as it must here: rejected");
	fd = raw_connect(&door.in);
	raw_send(fd, "GET / HTTP/1.0\r\n\r\n", 18);
	expect_no_more(fd);
	close(fd);
	wait_for_log("no TLS with 127.0.0.1:");
	fd = raw_connect(&door.in);
	shutdown(fd, SHUT_WR);
	expect_no_more(fd);
	close(fd);
	no_memory_in = "BIO_new";
	fd = raw_connect(&door.in);
	expect_no_more(fd);
	close(fd);
	no_memory_in = NULL;
	wait_for_log("an incoming connection is dropped: Cannot allocate memory");
	hands_fini(&h);
	use_certificates(NULL, NULL, NULL);
}

/* a peer that responds with something else; the attempt is repeated */
static void
test_by_hand_is_refused(void **state)
{
	(void)state;
	struct sockaddr_in addr;
	struct softrdma_handshake hs = { .type = SOFTRDMA_HANDSHAKE_REJECT, .reason = SOFTRDMA_REJECT_PLAIN };
	struct softrdma_cm_msg reject;
	int listening = raw_listen(&addr);
	union ibv_gid own = the_gid(AF_INET), peer = own;
	memcpy(peer.raw + 8, &addr.sin_port, 2);
	memset(peer.raw + 10, 0x5a, 6);
	softrdma_cm_msg_encode(&reject, &hs, NULL, 0);
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		if (with_tls)
			node();
		struct ibv_qp *qp = new_qp();
		to_init(qp);
		to_rtr(qp, &peer, 0x654321, PSN_B);
		to_rts(qp, PSN_A);
		for (int answers = 0; answers < 2; answers++) {
			int fd = raw_accept(listening);
			assert_true(readable(fd, PATIENCE_MS));
			softrdma_cm_msg_read_away(fd);
			if (answers == 0)
				raw_send(fd, reject.bytes, reject.length);
			else
				shutdown(fd, SHUT_WR);
			wait_for_log(answers       ? "has closed the connection"
					: with_tls ? "does not use TLS, as this side must"
						   : "speaks TLS only, and this side has no credentials");
			expect_no_more(fd); /* this attempt ends too; the log line may be older */
			close(fd);
		}
		assert_int_equal(softrdma_ibv_destroy_qp(qp), 0);
	}
	close(listening);
	use_certificates(NULL, NULL, NULL);
}

static void
test_by_hand_bad_settings(void **state)
{
	(void)state;
	struct hands h;
	hands_init(&h, AF_INET);
	use_certificates("node", NULL, "ca");
	struct ibv_qp_attr attr = rtr_attr(&h.gid, h.b->qp_num, PSN_B);
	assert_int_equal(softrdma_ibv_modify_qp(h.a, &attr, RTR_MASK), EINVAL);
	wait_for_log("SOFTRDMA_TLS_KEY is not set, but SOFTRDMA_TLS_CA is");
	use_certificates(NULL, NULL, NULL);
	hands_fini(&h);
}

static int
setup_files(void **state)
{
	return setup_by_hand(state) ? -1 : certificates_init();
}

static int
teardown_files(void **state)
{
	use_certificates(NULL, NULL, NULL);
	certificates_fini();
	return teardown_by_hand(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_trusted),
		device_test(test_credentials_end_first),
		device_test(test_psk),
		device_test(test_not_trusted),
		device_test(test_cut),
		device_test(test_interrupted),
		device_test(test_changed_on_the_way),
		device_test(test_other_side_gone),
		device_test(test_full_socket),
		device_test(test_another_key),
		device_test(test_changes_of_key),
		device_test(test_flood_of_changes_of_key),
		device_test(test_handshake_in_pieces),
		device_test(test_handshake_that_creeps),
		device_test(test_costly_groups),
		device_test(test_long_chain),
		device_test(test_send_before_agreed),
		device_test(test_answer_without_room),
		device_test(test_no_memory),
		device_test(test_connection),
		device_test(test_rest_of_a_record),
		device_test(test_record_that_cannot_leave),
		device_test(test_full_both_ways),
		device_test(test_end_without_room),
		device_test(test_rejected),
		device_test(test_bad_settings),
		device_test(test_renewed),
		device_test(test_of_an_id),
		device_test(test_warning),
		device_test(test_hostile),
		device_test(test_long_handshake),
		device_test(test_client_leaves),
		device_test(test_server_is_silent),
		device_test(test_server_is_silent),
		device_test(test_without_memory),
		device_test(test_gone_before_accept),
		device_test(test_memory_that_has_gone),
		device_test(test_by_hand),
		device_test(test_by_hand_refuses),
		device_test(test_by_hand_is_refused),
		device_test(test_by_hand_bad_settings),
	};
	return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
