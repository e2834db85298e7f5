/* SPDX-License-Identifier: BSD-3-Clause */
/* Copyright the librpma authors */

/*
 * sanitized_program.c -- a verbs program with two defects that sanitizers find
 *
 *	sanitized_program              no defect: it opens the device and registers memory
 *	sanitized_program defect       a write past allocated memory, and one variable of two threads
 */

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int shared;

static void *
add(void *arg)
{
	(void)arg;
	shared++;
	return NULL;
}

int
main(int argc, char *argv[])
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	if (list == NULL || count == 0)
		return 1;
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	char *buf = malloc(8);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, 8, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (mr == NULL)
		return 1;
	printf("registered on %s\n", ibv_get_device_name(list[0]));
	if (argc > 1) {
		pthread_t threads[2];
		int i;
		for (i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, add, argv[1]);
		for (i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		*(volatile char *)(buf + 7 + argc / 2) = 1;
	}
	ibv_dereg_mr(mr);
	free(buf);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
