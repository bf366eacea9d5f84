#include "cli/chat/conversation.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocator.h"
#include "base/growing.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"
#include "cli/model/image_sources.h"

/* ---- images and videos ---- */

/* A video with room for its frames. */
struct frames {
  struct omma_video video;
  size_t capacity;
  struct omma_image *images[];
};

/* Names of frames, each to be released with its terminator. */
struct names {
  char **items;
  size_t count, capacity;
};

static void release_names(struct names *names) {
  for (size_t i = 0; i < names->count; i++) {
    ommai_release(&ommai_default_allocator, names->items[i], strlen(names->items[i]) + 1, 1);
  }
  ommai_release(&ommai_default_allocator, names->items, names->capacity, sizeof *names->items);
}

/* Adds a name of `size` bytes. More than a video can have are not kept. */
static int add_name(struct names *names, const char *source, const char *name, size_t size) {
  if (names->count == names->capacity) {
    return ommai_failed("video: %s: more than %d frames", source, OMMA_MAX_VIDEO_FRAMES);
  }
  names->items[names->count] = ommai_duplicate(&ommai_default_allocator, name, size);
  if (!names->items[names->count]) return ommai_failed("video: out of memory: a name of %zu bytes", size);
  names->count++;
  return OMMAI_EXIT_DONE;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Runs of digits count as numbers: frame_9 comes before frame_10. Names that differ in leading
 * zeros alone go by bytes. */
static int compare_names(const void *left, const void *right) {
  const char *a = *(char *const *)left, *b = *(char *const *)right;
  while (*a && *b) {
    if (is_digit(*a) && is_digit(*b)) {
      a += strspn(a, "0");
      b += strspn(b, "0");
      size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
      int order = n == m ? strncmp(a, b, n) : (n < m ? -1 : 1);
      if (order) return order;
      a += n;
      b += m;
    } else if (*a != *b) {
      break;
    } else {
      a++;
      b++;
    }
  }
  int order = (unsigned char)*a - (unsigned char)*b;
  return order ? order : strcmp(*(char *const *)left, *(char *const *)right);
}

/* The files of a folder but hidden ones, in order. */
static int list_folder(const char *folder, struct names *names) {
  DIR *open = opendir(folder);
  if (!open) return ommai_failed("video: %s: %s", folder, strerror(errno));
  int code = OMMAI_EXIT_DONE;
  for (const struct dirent *entry; code == OMMAI_EXIT_DONE && (entry = readdir(open));) {
    char path[OMMAI_MAX_PATH];
    struct stat status;
    if (entry->d_name[0] == '.') continue;
    int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (length >= OMMAI_MAX_PATH) {
      code = ommai_failed("video: %.100s...: the path is too long", folder);
    } else if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
      code = add_name(names, folder, path, (size_t)length);
    }
  }
  closedir(open);
  if (code == OMMAI_EXIT_DONE && names->count == 0) return ommai_failed("video: %s: the folder has no files", folder);
  qsort(names->items, names->count, sizeof *names->items, compare_names);
  return code;
}

static int list_frames(const char *source, struct names *names) {
  struct stat status;
  if (stat(source, &status) == 0 && S_ISDIR(status.st_mode)) return list_folder(source, names);
  if (!strchr(source, ',')) {
    return ommai_usage_error(
        "video: %s: expected a folder of frames, or their files with commas between (ffmpeg -i VIDEO -vf fps=2 FOLDER/%%d.png "
        "makes "
        "them)",
        source);
  }
  for (const char *name = source;; name++) {
    size_t size = strcspn(name, ",");
    if (size == 0) return ommai_usage_error("video: %s: a name between the commas is empty", source);
    OMMAI_TRY_CODE(add_name(names, source, name, size));
    name += size;
    if (!*name) return OMMAI_EXIT_DONE;
  }
}

static int load_frames(const struct names *names, double fps, struct omma_part *part) {
  struct frames *frames = ommai_allocate(&ommai_default_allocator, sizeof *frames + names->count * sizeof *frames->images, 1);
  if (!frames) return ommai_failed("video: out of memory: a list of %zu frames", names->count);
  frames->capacity = names->count;
  frames->video = (struct omma_video){.frames = (const struct omma_image *const *)frames->images, .fps = fps};
  part->video = &frames->video;
  for (; frames->video.n_frames < names->count; frames->video.n_frames++) {
    size_t i = frames->video.n_frames;
    OMMAI_TRY_CODE(ommai_load_image(names->items[i], &frames->images[i]));
  }
  return OMMAI_EXIT_DONE;
}

int ommai_attach_image(const char *source, const struct ommai_attachment_options *options, struct omma_part *part) {
  struct omma_image *image;
  int code = ommai_load_image(source, &image);
  if (code == OMMAI_EXIT_DONE) *part = (struct omma_part){.image = image, .image_options = options->sizes};
  return code;
}

int ommai_attach_video(const char *source, const struct ommai_attachment_options *options, struct omma_part *part) {
  struct names names = {.capacity = OMMA_MAX_VIDEO_FRAMES};
  struct omma_part video = {.image_options = options->sizes};
  names.items = ommai_allocate(&ommai_default_allocator, names.capacity, sizeof *names.items);
  if (!names.items) return ommai_failed("video: out of memory: a list of %zu names", names.capacity);
  int code = list_frames(source, &names);
  if (code == OMMAI_EXIT_DONE) code = load_frames(&names, options->fps, &video);
  release_names(&names);
  if (code != OMMAI_EXIT_DONE) {
    ommai_attachment_release(&video);
    return code;
  }
  *part = video;
  return code;
}

void ommai_attachment_release(struct omma_part *part) {
  omma_image_destroy((struct omma_image *)part->image);
  if (part->video) {
    struct frames *frames = (struct frames *)part->video; /* its first member */
    for (size_t i = 0; i < frames->video.n_frames; i++) omma_image_destroy(frames->images[i]);
    ommai_release(&ommai_default_allocator, frames, sizeof *frames + frames->capacity * sizeof *frames->images, 1);
  }
  *part = (struct omma_part){0};
}

/* ---- messages ---- */

static void release_parts(struct omma_part *parts, size_t n_parts) {
  if (!parts) return;
  for (size_t i = 0; i < n_parts; i++) {
    if (parts[i].text) ommai_release(&ommai_default_allocator, (char *)parts[i].text, parts[i].text_size + 1, 1);
    ommai_attachment_release(&parts[i]);
  }
  ommai_release(&ommai_default_allocator, parts, n_parts, sizeof *parts);
}

int ommai_conversation_add(struct ommai_conversation *conversation, enum omma_role role, struct omma_part *attachments,
                           size_t n_attachments, const char *text, size_t text_size) {
  size_t n_parts = n_attachments + (text_size > 0);
  struct omma_part *parts = ommai_allocate(&ommai_default_allocator, n_parts, sizeof *parts);
  if (!parts) {
    for (size_t i = 0; i < n_attachments; i++) ommai_attachment_release(&attachments[i]);
    return ommai_failed("out of memory: a message of %zu parts", n_parts);
  }
  if (n_attachments) memcpy(parts, attachments, n_attachments * sizeof *parts);
  bool made = ommai_grow((void **)&conversation->messages, &conversation->capacity, conversation->count, 1,
                         sizeof *conversation->messages, &ommai_default_allocator);
  if (made && text_size > 0) {
    struct omma_part *part = &parts[n_attachments];
    part->text = ommai_duplicate(&ommai_default_allocator, text, text_size);
    part->text_size = text_size;
    made = part->text != NULL;
  }
  if (!made) {
    release_parts(parts, n_parts);
    return ommai_failed("out of memory: a message of %zu bytes", text_size);
  }
  conversation->messages[conversation->count++] = (struct omma_message){.role = role, .parts = parts, .n_parts = n_parts};
  return OMMAI_EXIT_DONE;
}

void ommai_conversation_truncate(struct ommai_conversation *conversation, size_t count) {
  while (conversation->count > count) {
    struct omma_message *last = &conversation->messages[--conversation->count];
    release_parts((struct omma_part *)last->parts, last->n_parts);
  }
}

size_t ommai_conversation_take_back(struct ommai_conversation *conversation, struct omma_part *attachments) {
  struct omma_message *last = &conversation->messages[conversation->count - 1];
  struct omma_part *parts = (struct omma_part *)last->parts;
  size_t n_attachments = 0;
  for (size_t i = 0; i < last->n_parts; i++) {
    if (!parts[i].image && !parts[i].video) continue;
    attachments[n_attachments++] = parts[i];
    parts[i] = (struct omma_part){0};
  }
  ommai_conversation_truncate(conversation, conversation->count - 1);
  return n_attachments;
}

void ommai_conversation_release(struct ommai_conversation *conversation) {
  ommai_conversation_truncate(conversation, 0);
  ommai_release(&ommai_default_allocator, conversation->messages, conversation->capacity, sizeof *conversation->messages);
  *conversation = (struct ommai_conversation){0};
}
