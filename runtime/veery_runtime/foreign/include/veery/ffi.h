/* Functions that programs of veery call on the host, in C or C++: all that they need, in one header.

   A function is given a frame, and returns NULL or an error:

       #include "veery/ffi.h"

       veery_ffi_error *scale(veery_ffi_frame *frame) {
         VEERY_FFI_BEGIN(frame);
         const veery_ffi_scalar *factor = veery_ffi_scalar_attribute(frame, "factor", VEERY_FFI_F32);
         if (!factor || frame->args.size != 1 || frame->rets.size != 1)
           return veery_ffi_fail(frame, VEERY_FFI_INVALID_ARGUMENT, "expected one array, and factor");
         const veery_ffi_buffer *x = frame->args.buffers[0], *y = frame->rets.buffers[0];
         for (int64_t i = 0; i < veery_ffi_size(x); ++i)
           ((float *)y->data)[i] = *(float *)factor->value * ((const float *)x->data)[i];
         return NULL;
       }

   It is compiled into a shared library, which ctypes loads, and registered:

       lib = ctypes.CDLL("./scale.so")
       jax.ffi.register_ffi_target("scale", jax.ffi.pycapsule(lib.scale))
       jax.ffi.ffi_call("scale", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, factor=np.float32(2))

   Arguments may only be read, unless they are in the memory of a result (`input_output_aliases`). All is gone when the
   function returns. It may be called from several threads at once.

   The structs are those of version 0.1 of XLA's foreign function interface, so that the function runs in JAX too. */

#ifndef VEERY_FFI_H_
#define VEERY_FFI_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct veery_ffi_error veery_ffi_error;

/* Types of elements. */
enum {
  VEERY_FFI_BOOL = 1, VEERY_FFI_S8 = 2, VEERY_FFI_S16 = 3, VEERY_FFI_S32 = 4, VEERY_FFI_S64 = 5,
  VEERY_FFI_U8 = 6, VEERY_FFI_U16 = 7, VEERY_FFI_U32 = 8, VEERY_FFI_U64 = 9,
  VEERY_FFI_F16 = 10, VEERY_FFI_F32 = 11, VEERY_FFI_F64 = 12, VEERY_FFI_BF16 = 16,
  VEERY_FFI_C64 = 15, VEERY_FFI_C128 = 18
};

/* Kinds of attributes. */
enum { VEERY_FFI_ARRAY = 1, VEERY_FFI_DICTIONARY = 2, VEERY_FFI_SCALAR = 3, VEERY_FFI_STRING = 4 };

/* Stages of which a function can be that of one. */
enum { VEERY_FFI_INSTANTIATE = 0, VEERY_FFI_PREPARE = 1, VEERY_FFI_INITIALIZE = 2, VEERY_FFI_EXECUTE = 3 };

/* Kinds of errors. */
enum {
  VEERY_FFI_INVALID_ARGUMENT = 3, VEERY_FFI_NOT_FOUND = 5, VEERY_FFI_RESOURCE_EXHAUSTED = 8,
  VEERY_FFI_FAILED_PRECONDITION = 9, VEERY_FFI_OUT_OF_RANGE = 11, VEERY_FFI_UNIMPLEMENTED = 12,
  VEERY_FFI_INTERNAL = 13
};

/* An array: its elements row by row, or as the call's layouts say. */
typedef struct {
  size_t struct_size;
  void *extension;
  int dtype;
  void *data;
  int64_t rank;
  const int64_t *dims;
} veery_ffi_buffer;

/* Arguments, or results. */
typedef struct {
  size_t struct_size;
  void *extension;
  int64_t size;
  const int *kinds;
  veery_ffi_buffer *const *buffers;
} veery_ffi_buffers;

/* A text, which need not end in a zero. */
typedef struct {
  const char *text;
  size_t size;
} veery_ffi_string;

typedef struct {
  int dtype;
  const void *value;
} veery_ffi_scalar;

/* The elements of an array of any shape. */
typedef struct {
  int dtype;
  size_t size;
  const void *data;
} veery_ffi_array;

/* Attributes in the order of their names. A value is a veery_ffi_string, ..._scalar, ..._array or, for a dictionary,
   veery_ffi_attributes. */
typedef struct {
  size_t struct_size;
  void *extension;
  int64_t size;
  const int *kinds;
  const veery_ffi_string *const *names;
  const void *const *values;
} veery_ffi_attributes;

typedef struct {
  size_t struct_size;
  void *extension;
  const char *message;
  int code;
} veery_ffi_new_error;

typedef struct {
  size_t struct_size;
  void *extension;
  int major, minor;
} veery_ffi_version;

/* The functions of the caller, of which this header uses the first. */
typedef struct {
  size_t struct_size;
  void *extension;
  veery_ffi_version version;
  const void *internal;
  veery_ffi_error *(*create_error)(veery_ffi_new_error *);
} veery_ffi_api;

typedef struct {
  size_t struct_size;
  veery_ffi_version version;
  uint32_t traits;
} veery_ffi_metadata;

typedef struct veery_ffi_extension {
  size_t struct_size;
  int kind;
  struct veery_ffi_extension *next;
  veery_ffi_metadata *metadata;
} veery_ffi_extension;

/* A call. */
typedef struct {
  size_t struct_size;
  veery_ffi_extension *extension;
  const veery_ffi_api *api;
  void *context;
  int stage;
  veery_ffi_buffers args;
  veery_ffi_buffers rets;
  veery_ffi_attributes attributes;
} veery_ffi_frame;

/* Whether the caller asks which version of the interface the function is for; this answers it. */
static inline int veery_ffi_describe(veery_ffi_frame *frame) {
  veery_ffi_extension *asked = frame->extension;
  if (!asked || asked->kind != 1) return 0;
  asked->metadata->version.struct_size = sizeof(veery_ffi_version);
  asked->metadata->version.extension = NULL;
  asked->metadata->version.major = 0;
  asked->metadata->version.minor = 1;
  asked->metadata->traits = 0;
  return 1;
}

/* The first line of each function. */
#define VEERY_FFI_BEGIN(frame) \
  do {                         \
    if (veery_ffi_describe(frame)) return NULL; \
  } while (0)

/* An error to return. The message is copied. */
static inline veery_ffi_error *veery_ffi_fail(const veery_ffi_frame *frame, int code, const char *message) {
  veery_ffi_new_error made = {sizeof(veery_ffi_new_error), NULL, message, code};
  return frame->api->create_error(&made);
}

/* How many elements an array has. */
static inline int64_t veery_ffi_size(const veery_ffi_buffer *buffer) {
  int64_t size = 1;
  for (int64_t i = 0; i < buffer->rank; ++i) size *= buffer->dims[i];
  return size;
}

/* An attribute of a kind, or NULL. */
static inline const void *veery_ffi_attribute(const veery_ffi_attributes *attributes, const char *name, int kind) {
  for (int64_t i = 0; i < attributes->size; ++i) {
    const veery_ffi_string *found = attributes->names[i];
    if (attributes->kinds[i] == kind && found->size == strlen(name) && !memcmp(found->text, name, found->size))
      return attributes->values[i];
  }
  return NULL;
}

/* A scalar among the attributes of a call, or NULL if there is none of this name and type. */
static inline const veery_ffi_scalar *veery_ffi_scalar_attribute(const veery_ffi_frame *frame, const char *name,
                                                                 int dtype) {
  const veery_ffi_scalar *found =
      (const veery_ffi_scalar *)veery_ffi_attribute(&frame->attributes, name, VEERY_FFI_SCALAR);
  return found && found->dtype == dtype ? found : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
