/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/* tls_openssl.c -- TLS 1.3 on the socket of a connection, by OpenSSL */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "softrdma/base/env.h"
#include "softrdma/wire/stream.h"
#include "softrdma/wire/tls.h"
#include "softrdma/wire/tls_reasons.h"
#include "softrdma/wire/tls_stream.h"

/* the first byte of the device's own messages ("SRDM"), with which no record of TLS begins */
#define FIRST_OF_CM_MSG 'S'

struct softrdma_tls_context {
	atomic_uint refs; /* of its maker and of connections, whose handshakes look at the key */
	SSL_CTX *ctx;
	struct softrdma_tls_psk psk; /* if the context is not for certificates */
};

struct softrdma_tls {
	struct softrdma_stream stream; /* first */
	struct softrdma_tls_context *context;
	SSL *ssl;
	int fd;
	bool heard;            /* the first byte has arrived */
	bool plain;            /* it began a message of the device without TLS */
	bool eof;              /* the peer has ended the connection of the socket */
	bool drained;          /* the last call found the socket empty, and OpenSSL holds no input */
	bool unread;           /* the last call stopped at a limit before the socket was empty */
	bool read_wants_space; /* OpenSSL must send something before it can read on */
	bool end_wants_space;  /* the end of the output could not be announced yet */
	bool broken;
	uint32_t begin, end; /* the bytes of record that have not left */
	uint32_t sealed;     /* records sent with the current key */
	size_t may_read;     /* bytes that the current call may still read from the socket */
	bool dry;            /* the socket was empty in the current call */
	bool agreed;         /* the handshake is complete */
	int wakes_at;        /* bytes that the socket must hold before it reports input */
	bool in_doubt;       /* a record has begun, and it is not known yet whether it holds data */
	uint32_t idle;       /* records without data, less those paid for by data; see bounds.h */
	size_t data;         /* bytes of data that have not paid for a record yet */
	const char *why;
	uint8_t record[SOFTRDMA_TLS_RECORD];
};
static_assert(offsetof(struct softrdma_tls, stream) == 0, "tls_stream.c casts it");

/* --- a BIO of the device's own, because that of OpenSSL would raise SIGPIPE --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* NULL: no memory */

static int
write_socket(BIO *bio, const char *buf, int len)
{
	const struct softrdma_tls *tls = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	ssize_t n = softrdma_stream_send(tls->fd, NULL, buf, (size_t)len);
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	return (int)n;
}

/*
 * as softrdma_stream_peek(); a message without TLS stays in the socket, because the caller may respond to
 * it
 */
static ssize_t
look_at_first_byte(struct softrdma_tls *tls)
{
	uint8_t byte;
	ssize_t n = softrdma_stream_peek(tls->fd, NULL, &byte);
	tls->heard = n == 1;
	tls->plain = n == 1 && byte == FIRST_OF_CM_MSG;
	if (!tls->plain)
		return n;
	errno = EPROTONOSUPPORT;
	return -1;
}

static size_t
at_most(size_t len, size_t limit)
{
	return len < limit ? len : limit;
}

/* true if the peer sends too many records without data */
static bool
is_idle(const struct softrdma_tls *tls)
{
	return tls->idle > SOFTRDMA_TLS_IDLE_RECORDS;
}

/*
 * OpenSSL calls this twice for each record: for its header and for the decrypted type. So a record is counted
 * when the next one begins. Empty records of application data are not counted: OpenSSL itself accepts at most
 * 32 of them in a row.
 */
static void
count_record(int is_sent, int version, int content_type, const void *buf, size_t len, SSL *ssl, void *arg)
{
	struct softrdma_tls *tls = arg;
	(void)version;
	(void)ssl;
	if (is_sent || !tls->agreed)
		return;
	if (content_type == SSL3_RT_HEADER) {
		tls->idle += tls->in_doubt;
		tls->in_doubt = true;
	} else if (content_type == SSL3_RT_INNER_CONTENT_TYPE && len == 1) {
		tls->in_doubt = *(const uint8_t *)buf != SSL3_RT_APPLICATION_DATA;
	}
}

/*
 * A peer may send its handshake in very small amounts. OpenSSL asks for at most the rest of a record. Until
 * that rest has arrived, OpenSSL cannot go on, so the socket should not wake the progress thread before.
 */
static void
wake_at(struct softrdma_tls *tls, int bytes)
{
	if (tls->wakes_at != bytes &&
		setsockopt(tls->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)) == 0)
		tls->wakes_at = bytes;
}

static int
read_socket(BIO *bio, char *buf, int len)
{
	struct softrdma_tls *tls = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	if (is_idle(tls)) {
		errno = ECONNRESET;
		return -1;
	}
	if (tls->may_read == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	ssize_t n = tls->heard ? 1 : look_at_first_byte(tls);
	if (n >= 0)
		n = softrdma_stream_recv(tls->fd, NULL, buf, at_most(tls->may_read, (size_t)len));
	if (n > 0) {
		tls->may_read -= (size_t)n;
		tls->stream.came = true;
	}
	tls->dry = n < 0 && errno == EAGAIN;
	if (tls->dry)
		BIO_set_retry_read(bio);
	if (tls->dry && !tls->agreed)
		wake_at(tls, len);
	tls->eof = n == 0;
	return (int)n;
}

static long
control_socket(BIO *bio, int command, long value, void *arg)
{
	const struct softrdma_tls *tls = BIO_get_data(bio);
	(void)value;
	(void)arg;
	switch (command) {
	case BIO_CTRL_EOF:
		return tls->eof;
	case BIO_CTRL_FLUSH:
		return 1; /* this BIO buffers nothing */
	default:
		return 0;
	}
}

static void
init(void)
{
	/* no cleanup at exit: the progress thread may be inside OpenSSL when the process ends */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "softrdma");
	if (method) {
		BIO_meth_set_write(method, write_socket);
		BIO_meth_set_read(method, read_socket);
		BIO_meth_set_ctrl(method, control_socket);
	}
}

/* --- contexts --- */

/* a pre-shared key is a session in OpenSSL, and a session is valid only in its context, which this names */
static const unsigned char place[] = "softrdma";

/* the first reason that OpenSSL gives; the string is static */
static const char *
reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_error());
	return text ? text : "for a reason that OpenSSL does not tell";
}

/* a key with a passphrase cannot be used, because there is no user to ask */
static int
no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static int
new_context(struct softrdma_tls_context **context_ptr)
{
	pthread_once(&once, init);
	ERR_clear_error();
	struct softrdma_tls_context *context = calloc(1, sizeof(*context));
	if (context == NULL)
		return ENOMEM;
	SSL_CTX *ctx = method ? SSL_CTX_new(TLS_method()) : NULL;
	/*
	 * An untrusted peer chooses the group, and this side computes with it on the progress thread. A
	 * finite field of 8192 bits, which OpenSSL offers by default, takes a third of a second.
	 */
	if (ctx == NULL || SSL_CTX_set1_groups_list(ctx, "X25519:P-256") != 1) {
		SSL_CTX_free(ctx);
		free(context);
		return ENOMEM;
	}
	atomic_init(&context->refs, 1);
	context->ctx = ctx;
	SSL_CTX_set_app_data(ctx, context);
	SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/*
	 * SSL_read() returns after a record without data, so a flood of them does not block other
	 * connections
	 */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_session_id_context(ctx, place, sizeof(place));
	/* no resumption: connections are made rarely, and each one must authenticate anew */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_max_cert_list(ctx, SOFTRDMA_TLS_CHAIN_MAX);
	SSL_CTX_set_verify_depth(ctx, SOFTRDMA_TLS_CHAIN_DEPTH);
	*context_ptr = context;
	return 0;
}

static int
load_files(SSL_CTX *ctx, const char *cert_file, const char *key_file, const char *ca_file)
{
	if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1) {
		/* message(unreadable-credentials) */
		SOFTRDMA_LOG(ERROR, "TLS: no certificate can be read from %s: %s", cert_file, reason());
		return EINVAL;
	}
	if (SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) != 1) {
		/* message(unreadable-credentials) */
		SOFTRDMA_LOG(ERROR, "TLS: no key of the certificate in %s can be read from %s: %s", cert_file,
			key_file, reason());
		return EINVAL;
	}
	/* a key of another kind than the certificate's is not compared with it before */
	if (SSL_CTX_check_private_key(ctx) != 1) {
		/*
		 * message(tls): the two files do not belong together, and are even of different kinds ->
		 * Give the key that the certificate was made for.
		 */
		SOFTRDMA_LOG(ERROR, "TLS: the key in %s is not that of the certificate in %s", key_file,
			cert_file);
		return EINVAL;
	}
	if (SSL_CTX_load_verify_file(ctx, ca_file) != 1) {
		/* message(unreadable-credentials) */
		SOFTRDMA_LOG(ERROR, "TLS: no certificate of a CA can be read from %s: %s", ca_file, reason());
		return EINVAL;
	}
	return 0;
}

int
softrdma_tls_context_of_files(const char *cert_file, const char *key_file, const char *ca_file,
	struct softrdma_tls_context **context)
{
	int ret = new_context(context);
	if (ret)
		return ret;
	ret = load_files((*context)->ctx, cert_file, key_file, ca_file);
	ERR_clear_error();
	if (ret)
		softrdma_tls_context_delete(*context);
	return ret;
}

/* makes a session from the pre-shared key, because OpenSSL takes such keys as sessions. NULL: no memory. */
static SSL_SESSION *
session_of_psk(SSL *ssl, const struct softrdma_tls_psk *psk)
{
	static const unsigned char aes_128_gcm_sha256[] = { 0x13, 0x01 };
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = SSL_SESSION_new();
	if (session && SSL_SESSION_set1_master_key(session, psk->key, psk->len) == 1 &&
		SSL_SESSION_set_cipher(session, cipher) == 1 &&
		SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
		SSL_SESSION_set1_id_context(session, place, sizeof(place)) == 1)
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static const struct softrdma_tls_psk *
psk_of(SSL *ssl)
{
	const struct softrdma_tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	return &context->psk;
}

/* the active side offers its key by name */
static int
offer_psk(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *len, SSL_SESSION **session)
{
	(void)digest; /* all allowed ciphers have the same digest */
	const struct softrdma_tls_psk *psk = psk_of(ssl);
	*identity = (const unsigned char *)psk->identity;
	*len = strlen(psk->identity);
	*session = session_of_psk(ssl, psk);
	return *session != NULL;
}

/*
 * the passive side compares the name with its own; without a match the handshake fails, as it has no
 * certificate
 */
static int
find_psk(SSL *ssl, const unsigned char *identity, size_t len, SSL_SESSION **session)
{
	const struct softrdma_tls_psk *psk = psk_of(ssl);
	*session = NULL;
	if (len != strlen(psk->identity) || memcmp(identity, psk->identity, len) != 0)
		return 1;
	*session = session_of_psk(ssl, psk);
	return *session != NULL;
}

int
softrdma_tls_context_of_psk(const struct softrdma_tls_psk *psk, struct softrdma_tls_context **context)
{
	int ret = new_context(context);
	if (ret)
		return ret;
	SSL_CTX *ctx = (*context)->ctx;
	(*context)->psk = *psk;
	/* ciphers with the same digest, because a key is for one digest */
	SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256");
	SSL_CTX_set_psk_use_session_callback(ctx, offer_psk);
	SSL_CTX_set_psk_find_session_callback(ctx, find_psk);
	return 0;
}

void
softrdma_tls_context_delete(struct softrdma_tls_context *context)
{
	if (atomic_fetch_sub(&context->refs, 1) > 1)
		return;
	SSL_CTX_free(context->ctx);
	explicit_bzero(&context->psk, sizeof(context->psk));
	free(context);
}

/* --- connections --- */

int
softrdma_tls_new(struct softrdma_tls_context *context, int fd, bool active, struct softrdma_tls **tls_ptr)
{
	struct softrdma_tls *tls = calloc(1, sizeof(*tls));
	if (tls == NULL)
		return ENOMEM;
	atomic_fetch_add(&context->refs, 1);
	tls->context = context;
	tls->fd = fd;
	tls->wakes_at = 1;
	tls->why = "";
	tls->ssl = SSL_new(context->ctx);
	BIO *bio = BIO_new(method);
	if (tls->ssl == NULL || bio == NULL) {
		BIO_free(bio);
		softrdma_tls_delete(tls);
		ERR_clear_error();
		return ENOMEM;
	}
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);
	SSL_set_msg_callback(tls->ssl, count_record);
	SSL_set_msg_callback_arg(tls->ssl, tls);
	if (active)
		SSL_set_connect_state(tls->ssl);
	else
		SSL_set_accept_state(tls->ssl);
	*tls_ptr = tls;
	return 0;
}

void
softrdma_tls_delete(struct softrdma_tls *tls)
{
	if (tls == NULL)
		return;
	SSL_free(tls->ssl);
	softrdma_tls_context_delete(tls->context);
	explicit_bzero(tls->record, sizeof(tls->record));
	free(tls);
}

/* the reason of a failure, with the way out if credentials are its cause */
static const char *
reason_of(const struct softrdma_tls *tls)
{
	const unsigned long error = ERR_peek_error();
	if (ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return "";
	return softrdma_tls_reason(psk_of(tls->ssl)->len > 0, error, SSL_get_verify_result(tls->ssl));
}

/*
 * Gives the errno value for a call of OpenSSL that did not succeed; 0: the peer has announced the end of its
 * output. The caller has cleared OpenSSL's queue of errors before the call.
 */
static int
failed(struct softrdma_tls *tls, int ret)
{
	int error = errno;
	if (is_idle(tls)) {
		tls->broken = true;
		tls->why = "the peer sends records without data";
		ERR_clear_error();
		return ECONNRESET;
	}
	switch (SSL_get_error(tls->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		tls->broken = true;
		return error ? error : ECONNRESET;
	default:
		tls->broken = true;
		tls->why = reason_of(tls);
		ERR_clear_error();
		return ECONNRESET;
	}
}

static void
begin_look(struct softrdma_tls *tls)
{
	ERR_clear_error();
	errno = 0;
	tls->may_read = SOFTRDMA_TLS_READ_MAX;
	tls->dry = false;
	tls->drained = false;
	tls->unread = false;
	tls->read_wants_space = false;
}

/* OpenSSL needs more input, or room for output: notes whether an event of the socket will report it */
static void
end_look(struct softrdma_tls *tls)
{
	bool wants_input = SSL_want_read(tls->ssl);
	tls->drained = wants_input && tls->dry;
	tls->unread = wants_input && !tls->dry;
	tls->read_wants_space = !wants_input;
}

int
softrdma_tls_handshake(struct softrdma_tls *tls)
{
	begin_look(tls);
	int ret = SSL_do_handshake(tls->ssl);
	tls->agreed = ret == 1;
	if (tls->agreed) {
		wake_at(tls, 1);
		SSL_set_read_ahead(tls->ssl, 1); /* one call reads all that is there */
		return 0;
	}
	int error = failed(tls, ret);
	if (tls->plain)
		return EPROTONOSUPPORT;
	if (error == EAGAIN)
		end_look(tls);
	return error ? error : ECONNRESET;
}

const char *
softrdma_tls_why(const struct softrdma_tls *tls)
{
	return tls->why;
}

static ssize_t
take(struct softrdma_tls *tls, int (*call)(SSL *ssl, void *buf, int len), void *buf, size_t len)
{
	begin_look(tls);
	int n = tls->broken ? -1 : call(tls->ssl, buf, len < INT_MAX ? (int)len : INT_MAX);
	if (n > 0)
		return n;
	int error = tls->broken ? ECONNRESET : failed(tls, n);
	if (error == 0)
		return 0;
	if (error == EAGAIN)
		end_look(tls);
	errno = error;
	return -1;
}

/* each amount of data allows the peer another record without data */
static void
pay(struct softrdma_tls *tls, size_t len)
{
	tls->data += len;
	size_t paid = tls->data / SOFTRDMA_TLS_DATA_PER_IDLE_RECORD;
	tls->data %= SOFTRDMA_TLS_DATA_PER_IDLE_RECORD;
	tls->idle -= (uint32_t)at_most(paid, tls->idle);
}

ssize_t
softrdma_tls_recv(struct softrdma_tls *tls, void *buf, size_t len)
{
	ssize_t n = take(tls, SSL_read, buf, len);
	if (n > 0)
		pay(tls, (size_t)n);
	return n;
}

ssize_t
softrdma_tls_peek(struct softrdma_tls *tls, void *buf, size_t len)
{
	return take(tls, SSL_peek, buf, len);
}

bool
softrdma_tls_has_input(const struct softrdma_tls *tls)
{
	return !tls->drained;
}

bool
softrdma_tls_is_unread(const struct softrdma_tls *tls)
{
	return tls->unread;
}

/* --- sending --- */

bool
softrdma_tls_flush(struct softrdma_tls *tls)
{
	while (tls->begin < tls->end) {
		ERR_clear_error();
		errno = 0;
		int n = SSL_write(tls->ssl, tls->record + tls->begin, (int)(tls->end - tls->begin));
		if (n > 0) {
			tls->begin += (uint32_t)n;
			continue;
		}
		if (failed(tls, n) == EAGAIN)
			break;
		tls->begin = tls->end; /* the peer cannot receive it */
		tls->broken = true;
	}
	return !tls->broken;
}

uint8_t *
softrdma_tls_record(struct softrdma_tls *tls)
{
	if (!softrdma_tls_flush(tls))
		errno = EPIPE;
	else if (tls->begin < tls->end)
		errno = EAGAIN;
	else
		return tls->record;
	return NULL;
}

static bool
has_room(const struct softrdma_tls *tls)
{
	struct pollfd pfd = { .fd = tls->fd, .events = POLLOUT };
	return poll(&pfd, 1, 0) == 1;
}

void
softrdma_tls_seal(struct softrdma_tls *tls, size_t len)
{
	assert(tls->begin == tls->end && len <= sizeof(tls->record));
	tls->begin = 0;
	tls->end = (uint32_t)len;
	/*
	 * KeyUpdate leaves before this record, and OpenSSL reads nothing until it has left. Two sides whose
	 * sockets are full would wait for each other to read. So without room the key changes with a later
	 * record.
	 */
	if (tls->sealed++ >= SOFTRDMA_TLS_KEY_RECORDS && has_room(tls)) {
		tls->sealed = 0;
		SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
	}
	softrdma_tls_flush(tls);
}

bool
softrdma_tls_wants_space(const struct softrdma_tls *tls)
{
	return tls->begin < tls->end || tls->read_wants_space || tls->end_wants_space;
}

ssize_t
softrdma_tls_send(struct softrdma_tls *tls, const void *buf, size_t len)
{
	/*
	 * OpenSSL would continue the handshake first, and compute a signature for a peer that is being
	 * rejected
	 */
	if (!tls->agreed) {
		errno = EPIPE;
		return -1;
	}
	uint8_t *record = softrdma_tls_record(tls);
	if (record == NULL)
		return -1;
	memcpy(record, buf, len);
	softrdma_tls_seal(tls, len);
	if (!tls->broken && tls->begin == tls->end)
		return (ssize_t)len;
	errno = tls->broken ? EPIPE : EAGAIN;
	return -1;
}

bool
softrdma_tls_end(struct softrdma_tls *tls)
{
	softrdma_tls_flush(tls);
	tls->end_wants_space = false;
	if (tls->begin < tls->end || tls->read_wants_space)
		return false;
	if (tls->broken || !SSL_is_init_finished(tls->ssl))
		return true;
	ERR_clear_error();
	errno = 0;
	int ret = SSL_shutdown(tls->ssl);
	tls->end_wants_space = ret < 0 && failed(tls, ret) == EAGAIN;
	return !tls->end_wants_space;
}

int
softrdma_tls_fd(const struct softrdma_tls *tls)
{
	return tls->fd;
}

struct softrdma_stream *
softrdma_tls_stream(struct softrdma_tls *tls)
{
	tls->stream.ops = &softrdma_tls_stream_ops;
	return &tls->stream;
}
