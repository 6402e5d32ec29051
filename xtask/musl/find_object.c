/*
 * Lets gcc's unwinder find its tables in a static musl program.
 *
 * The libgcc_eh.a of a Debian with glibc 2.35 or later asks _dl_find_object(3)
 * which object contains an address and where its .eh_frame_hdr is. musl has no
 * such function. What it has is dl_iterate_phdr(3), which in a static program
 * reports the one object there is; the answer below is made of that.
 *
 * A stub that finds nothing would link as well, and would end the process at
 * the first panic instead of unwinding it.
 *
 * Compiled with the headers of the machine's own C library, because the
 * structure has to be the one that libgcc_eh.a was compiled with.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef DLFO_EH_SEGMENT_TYPE

struct question {
	uintptr_t address;
	struct dl_find_object *answer;
};

/* Returns 1, and so ends the iteration, at the object with the address. */
static int answer_if_inside(struct dl_phdr_info *object, size_t size, void *data)
{
	struct question *question = data;
	uintptr_t start = UINTPTR_MAX, end = 0, tables = 0;
	int inside = 0;

	(void)size;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		uintptr_t first = object->dlpi_addr + segment->p_vaddr;
		uintptr_t after = first + segment->p_memsz;

		if (segment->p_type == DLFO_EH_SEGMENT_TYPE)
			tables = first;
		if (segment->p_type != PT_LOAD)
			continue;
		if (question->address >= first && question->address < after)
			inside = 1;
		if (first < start)
			start = first;
		if (after > end)
			end = after;
	}
	if (!inside || !tables)
		return 0;

	*question->answer = (struct dl_find_object){
		.dlfo_map_start = (void *)start,
		.dlfo_map_end = (void *)end,
		.dlfo_eh_frame = (void *)tables,
#if DLFO_STRUCT_HAS_EH_COUNT
		/* Arm's exception index has no header that tells its length. */
#error "this machine's unwinder wants a table length"
#endif
	};
	return 1;
}

int _dl_find_object(void *address, struct dl_find_object *answer)
{
	struct question question = { (uintptr_t)address, answer };

	return dl_iterate_phdr(answer_if_inside, &question) ? 0 : -1;
}

#endif

/*
 * libgcc_eh.a refers to these weakly: alone it would not bring them in from
 * libc.a, would find that threads are there all the same, and call address 0.
 */
const void *const ollie_unwinder_needs[] = {
	(void *)pthread_once,
	(void *)pthread_key_create,
	(void *)pthread_getspecific,
	(void *)pthread_setspecific,
	(void *)pthread_mutex_lock,
	(void *)pthread_mutex_unlock,
};
