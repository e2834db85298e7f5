/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * conf_tls.c -- connections with mutual authentication, and attempts that fail because one side does not
 * authenticate
 *
 * Each side sets its credentials by rpma_peer_set_tls() or in the environment. Variables that were set before
 * the test do not matter. With both roles in one process, they take turns at the environment.
 */

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "groups.h"
#include "role.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define SEED 0x715
#define KIB ((size_t)1 << 10)
/* bytes written and read: several TLS records; LEN: bytes of a message */
#define SIZE (100 * KIB)
#define LEN KIB

#define PATH_LEN 64
/* above all descriptors that anything else uses */
#define FIRST_FD 500

/*
 * ---- a CA, a node that it certified, and a stranger that it does not know; made for this test, valid until
 * 2120 ----
 */

/* clang-format off */
static const char ca_cert[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBJzCBzqADAgECAgEBMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMMB3Rlc3QgY2Ew\n"
	"IBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBIxEDAOBgNVBAMMB3Rl\n"
	"c3QgY2EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASbIXNV3jvyUq/iiBxTmEGg\n"
	"5ZpQAUJMdpLoDNe52pHI3QFG5YqG6wEYXuHs71fRYipHqgIFsyd6E9d3FKgNP7jK\n"
	"oxMwETAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQDUy6E9GjO6\n"
	"1taL5Wm5qnMQPyBLDqSxwfM8F/PojU/NRwIgPPVp3L+RysPXDdweRIUX/Ntp8cF2\n"
	"rwBlB6EH9RpK1qU=\n"
	"-----END CERTIFICATE-----\n";

static const char node_cert[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBFDCBu6ADAgECAgECMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMMB3Rlc3QgY2Ew\n"
	"IBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCXRl\n"
	"c3Qgbm9kZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDAqo/NH7MZ/9PaFOavA\n"
	"47zK3/GG8H3iA5yb0GSkqx2bgN6mpaeYS3opi8SK0ukAUSR8ddTWGhmN3N/fIKFr\n"
	"GtUwCgYIKoZIzj0EAwIDSAAwRQIgC9uNWYlkDDvqD702GP17nmY0cMlxxOgM2PGH\n"
	"gEUL8/kCIQDZ2GjgDRvUyLub7pF20tkI3qVchM6cHQg9m9pDRHLDKQ==\n"
	"-----END CERTIFICATE-----\n";

static const char node_key[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgvojqRuS/o+WwavJo\n"
	"XrjXrFPNoCJn0EXSOF6vfusuGUmhRANCAAQwKqPzR+zGf/T2hTmrwOO8yt/xhvB9\n"
	"4gOcm9BkpKsdm4DepqWnmEt6KYvEitLpAFEkfHXU1hoZjdzf3yChaxrV\n"
	"-----END PRIVATE KEY-----\n";

static const char stranger_cert[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBMjCB2qADAgECAgEDMAoGCCqGSM49BAMCMBgxFjAUBgNVBAMMDXRlc3Qgc3Ry\n"
	"YW5nZXIwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBgxFjAUBgNV\n"
	"BAMMDXRlc3Qgc3RyYW5nZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASDnIXa\n"
	"QKpC3Mn6VKnALsEk8wzBuDhzn2Aks7MzuOFIEiUdHNIp+y0cVwSIldRpBZP4sFtO\n"
	"tkjp7Qxqg6xuyNnloxMwETAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cA\n"
	"MEQCIBZZqyutzERxqEym393uUoYPRzHcZoi3k5yyyt7XTGh3AiB1u9QCAWs8EwBF\n"
	"Ayy/Z9UfKs0etFBRghIZuLB5akcrPg==\n"
	"-----END CERTIFICATE-----\n";

static const char stranger_key[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgcimBwLUiRIstVN6O\n"
	"fhtxA5K8Z5DBvNF10b6K9SbCYPahRANCAASDnIXaQKpC3Mn6VKnALsEk8wzBuDhz\n"
	"n2Aks7MzuOFIEiUdHNIp+y0cVwSIldRpBZP4sFtOtkjp7Qxqg6xuyNnl\n"
	"-----END PRIVATE KEY-----\n";
/* clang-format on */

struct credentials {
	const char *cert, *key, *ca; /* set by the call; NULL: set by the environment, without certificates */
	const char *psk;             /* NULL: none */
};

static const struct credentials node = { .cert = node_cert, .key = node_key, .ca = ca_cert };
static const struct credentials stranger = { .cert = stranger_cert, .key = stranger_key, .ca = ca_cert };
/* trusts strangers only */
static const struct credentials suspicious = { .cert = node_cert, .key = node_key, .ca = stranger_cert };
static const struct credentials has_key = { .psk = "test:000102030405060708090a0b0c0d0e0f\n" };
static const struct credentials has_other_key = { .psk = "test:0f0e0d0c0b0a09080706050403020100\n" };
static const struct credentials plain = { .psk = NULL };

/* ---- files ---- */

struct file {
	int fd;
	char path[PATH_LEN];
};

/*
 * A file in memory, so that none is left when a role ends early. No file of this process has had its path
 * before, because files named in the environment are read again only if they have changed.
 */
static void
file_new(struct file *f, const char *text)
{
	static atomic_int next_fd = FIRST_FD;
	const ssize_t len = (ssize_t)strlen(text);
	int made = memfd_create("tls", MFD_CLOEXEC);

	CHECK(made >= 0);
	CHECK_EQ(write(made, text, (size_t)len), len);
	CHECK_EQ(fchmod(made, 0600), 0);
	f->fd = fcntl(made, F_DUPFD_CLOEXEC, atomic_fetch_add(&next_fd, 1));
	CHECK(f->fd >= 0);
	close(made);
	snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
}

static int
set_tls(struct rpma_peer *peer, const struct credentials *c)
{
	struct file cert, key, ca;
	int ret;

	file_new(&cert, c->cert);
	file_new(&key, c->key);
	file_new(&ca, c->ca);
	ret = rpma_peer_set_tls(peer, cert.path, key.path, ca.path);
	close(cert.fd);
	close(key.fd);
	close(ca.fd);
	return ret;
}

static void
need_tls(struct role *r)
{
	struct rpma_peer *peer = role_new_peer(r);
	int ret = set_tls(peer, &node);

	if (ret == RPMA_E_NOSUPP)
		check_skip(r, "%s", rpma_errormsg());
	CHECK_OK(ret);
	CHECK_OK(rpma_peer_delete(&peer));
}

/*
 * sets the credentials of the role's peer; the descriptor (or -1) is needed until the role listens or
 * connects
 */
static int
show(struct role *r, const struct credentials *c)
{
	static const char *const certificates[] = { "SOFTRDMA_TLS_CERT", "SOFTRDMA_TLS_KEY",
		"SOFTRDMA_TLS_CA" };
	struct file psk = { .fd = -1 };

	if (c->cert) {
		CHECK_OK(set_tls(r->peer, c));
		return -1;
	}
	for (size_t i = 0; i < sizeof(certificates) / sizeof(certificates[0]); i++)
		unsetenv(certificates[i]);
	unsetenv("SOFTRDMA_TLS_PSK");
	if (c->psk) {
		file_new(&psk, c->psk);
		CHECK_EQ(setenv("SOFTRDMA_TLS_PSK", psk.path, 1), 0);
	}
	return psk.fd;
}

static void
forget(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* ---- all operations ---- */

static void
work_target(struct role *r)
{
	struct mem m, in, out;

	r->conn = conn_accept(r, NULL);
	r->cq = conn_cq(r->conn);
	mem_new_file(r, &m, SIZE,
		RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
	mem_new(r, &in, LEN, RPMA_MR_USAGE_RECV);
	mem_new(r, &out, LEN, RPMA_MR_USAGE_SEND);
	mem_fill(&out, SEED + 2);
	CHECK_OK(rpma_recv(r->conn, in.mr, GUARD, LEN, CTX(1)));
	desc_put(r, &m);
	expect_recv(r->cq, 1, LEN);
	mem_check(&in, SEED + 1);
	mem_check(&m, SEED);
	CHECK_OK(rpma_send(r->conn, out.mr, GUARD, LEN, ALWAYS, CTX(2)));
	expect_ok(r->cq, 2);
	mem_delete(&out);
	mem_delete(&in);
	mem_delete(&m);
	role_close(r);
}

static void
work_initiator(struct role *r)
{
	struct mem src, dst, in, out;
	struct rpma_mr_remote *remote;

	r->conn = conn_connect(r, NULL);
	r->cq = conn_cq(r->conn);
	mem_new(r, &src, SIZE, RPMA_MR_USAGE_WRITE_SRC);
	mem_new(r, &dst, SIZE, RPMA_MR_USAGE_READ_DST);
	mem_new(r, &in, LEN, RPMA_MR_USAGE_RECV);
	mem_new(r, &out, LEN, RPMA_MR_USAGE_SEND);
	mem_fill(&src, SEED);
	mem_fill(&out, SEED + 1);
	remote = remote_take(r);
	CHECK_OK(rpma_write(r->conn, remote, GUARD, src.mr, GUARD, SIZE, ALWAYS, CTX(1)));
	post_flush(r, remote, GUARD, SIZE, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, 2);
	CHECK_OK(rpma_read(r->conn, dst.mr, GUARD, remote, GUARD, SIZE, ALWAYS, CTX(3)));
	for (uint64_t i = 1; i <= 3; i++)
		expect_ok(r->cq, i);
	mem_check(&dst, SEED);
	CHECK_OK(rpma_recv(r->conn, in.mr, GUARD, LEN, CTX(4)));
	CHECK_OK(rpma_send(r->conn, out.mr, GUARD, LEN, ALWAYS, CTX(5)));
	expect_ok(r->cq, 5);
	expect_recv(r->cq, 4, LEN);
	mem_check(&in, SEED + 2);
	CHECK_OK(rpma_mr_remote_delete(&remote));
	mem_delete(&out);
	mem_delete(&in);
	mem_delete(&dst);
	mem_delete(&src);
	role_close(r);
}

/*
 * ---- the two sides connect; if the initiator's first credentials are wrong, the second attempt uses the
 * right ones ----
 */

struct meeting {
	const struct credentials *target; /* and the right ones of the initiator */
	const struct credentials *wrong;  /* NULL: no wrong attempt */
};

static void
open_with_tls(struct role *r)
{
	role_open(r);
	need_tls(r);
	ctl_sync(r); /* from here on only one role runs at a time */
}

static void
meeting_target(struct role *r)
{
	const struct meeting *m = r->scenario->arg;
	struct rpma_conn_req *req = NULL;
	int fd, key;

	open_with_tls(r);
	key = show(r, m->target);
	role_listen(r);
	forget(key);
	if (m->wrong) {
		ctl_expect(r, "refused");
		CHECK_OK(rpma_ep_get_fd(r->ep, &fd));
		CHECK(!wait_readable(fd, 0));
		CHECK_RET(rpma_ep_next_conn_req_timed(r->ep, NULL, 0, &req), RPMA_E_NO_EVENT);
		ctl_put(r, "nobody was here");
	}
	work_target(r);
}

static void
be_refused(struct role *r, const struct credentials *wrong)
{
	int key = show(r, wrong);
	struct rpma_conn *conn = conn_request(r, NULL, NULL);

	expect_event(conn, RPMA_CONN_REJECTED);
	conn_delete(&conn);
	forget(key);
	ctl_put(r, "refused");
	ctl_expect(r, "nobody was here");
	/* the credentials of a peer can be changed, but not removed */
	CHECK_OK(rpma_peer_delete(&r->peer));
	role_open(r);
}

static void
meeting_initiator(struct role *r)
{
	const struct meeting *m = r->scenario->arg;
	int key;

	open_with_tls(r);
	role_listen(r);
	if (m->wrong)
		be_refused(r, m->wrong);
	key = show(r, m->target);
	work_initiator(r);
	forget(key);
}

/* the endpoint goes on listening when its peer gets other credentials, and uses those from then on */
static void
renewed_target(struct role *r)
{
	open_with_tls(r);
	(void)show(r, &node);
	role_listen(r);
	ctl_expect(r, "refused");
	CHECK_OK(set_tls(r->peer, &suspicious));
	ctl_put(r, "strangers are trusted");
	work_target(r);
}

static void
renewed_initiator(struct role *r)
{
	struct rpma_conn *conn;

	open_with_tls(r);
	role_listen(r);
	(void)show(r, &stranger);
	conn = conn_request(r, NULL, NULL);
	expect_event(conn, RPMA_CONN_REJECTED);
	conn_delete(&conn);
	ctl_put(r, "refused");
	ctl_expect(r, "strangers are trusted");
	work_initiator(r);
}

static const struct meeting certificates = { &node, NULL };
static const struct meeting same_key = { &has_key, NULL };
static const struct meeting wrong_certificate = { &node, &stranger };
static const struct meeting untrusted_target = { &node, &suspicious };
static const struct meeting wrong_key = { &has_key, &has_other_key };
static const struct meeting key_for_certificate = { &node, &has_key };
static const struct meeting certificate_for_key = { &has_key, &node };
static const struct meeting plain_initiator = { &node, &plain };
static const struct meeting plain_target = { &plain, &node };

static const struct scenario list[] = {
	{ "tls-certificates", meeting_target, meeting_initiator, 0, SOFT_ONLY, &certificates },
	{ "tls-key", meeting_target, meeting_initiator, 0, SOFT_ONLY, &same_key },
	{ "tls-wrong-certificate", meeting_target, meeting_initiator, 0, SOFT_ONLY, &wrong_certificate },
	{ "tls-untrusted-target", meeting_target, meeting_initiator, 0, SOFT_ONLY, &untrusted_target },
	{ "tls-wrong-key", meeting_target, meeting_initiator, 0, SOFT_ONLY, &wrong_key },
	{ "tls-key-for-certificate", meeting_target, meeting_initiator, 0, SOFT_ONLY, &key_for_certificate },
	{ "tls-certificate-for-key", meeting_target, meeting_initiator, 0, SOFT_ONLY, &certificate_for_key },
	{ "tls-plain-initiator", meeting_target, meeting_initiator, 0, SOFT_ONLY, &plain_initiator },
	{ "tls-renewed-certificate", renewed_target, renewed_initiator, 0, SOFT_ONLY, NULL },
	{ "tls-plain-target", meeting_target, meeting_initiator, 0, SOFT_ONLY, &plain_target },
};

const struct scenario_group group_tls = { list, sizeof(list) / sizeof(list[0]) };
