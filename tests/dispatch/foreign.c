/* Functions of tests/dispatch/test_ffi.py. */
#include "veery/ffi.h"

veery_ffi_error *scaled(veery_ffi_frame *frame) {
  VEERY_FFI_BEGIN(frame);
  const veery_ffi_scalar *factor = veery_ffi_scalar_attribute(frame, "factor", VEERY_FFI_F32);
  if (!factor || frame->args.size != 1 || frame->rets.size != 1)
    return veery_ffi_fail(frame, VEERY_FFI_INVALID_ARGUMENT, "expected one array, and factor");
  const veery_ffi_buffer *x = frame->args.buffers[0], *y = frame->rets.buffers[0];
  if (x->dtype != VEERY_FFI_F32 || y->dtype != VEERY_FFI_F32)
    return veery_ffi_fail(frame, VEERY_FFI_UNIMPLEMENTED, "expected float32");
  for (int64_t i = 0; i < veery_ffi_size(x); ++i)
    ((float *)y->data)[i] = *(const float *)factor->value * ((const float *)x->data)[i];
  return NULL;
}

/* The shapes of two arguments, and the sums of rows of the first divided by an element of the second each. */
veery_ffi_error *rows(veery_ffi_frame *frame) {
  VEERY_FFI_BEGIN(frame);
  const veery_ffi_buffer *x = frame->args.buffers[0], *y = frame->args.buffers[1];
  int64_t *shapes = (int64_t *)frame->rets.buffers[1]->data;
  for (int64_t i = 0; i < x->rank; ++i) *shapes++ = x->dims[i];
  for (int64_t i = 0; i < y->rank; ++i) *shapes++ = y->dims[i];
  int64_t length = x->dims[x->rank - 1], count = veery_ffi_size(x) / length;
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < length; ++j) sum += ((const double *)x->data)[i * length + j];
    ((double *)frame->rets.buffers[0]->data)[i] = sum / ((const double *)y->data)[i % veery_ffi_size(y)];
  }
  return NULL;
}

/* Elements in the order in which they are in memory. */
veery_ffi_error *numbered(veery_ffi_frame *frame) {
  VEERY_FFI_BEGIN(frame);
  const veery_ffi_buffer *x = frame->args.buffers[0], *y = frame->rets.buffers[0], *z = frame->rets.buffers[1];
  memcpy(z->data, x->data, veery_ffi_size(x) * sizeof(int32_t));
  for (int32_t i = 0; i < veery_ffi_size(y); ++i) ((int32_t *)y->data)[i] = i;
  return NULL;
}

veery_ffi_error *in_place(veery_ffi_frame *frame) {
  VEERY_FFI_BEGIN(frame);
  const veery_ffi_buffer *x = frame->args.buffers[0], *y = frame->rets.buffers[0];
  if (x->data != y->data) return veery_ffi_fail(frame, VEERY_FFI_INTERNAL, "not the same memory");
  for (int64_t i = 0; i < veery_ffi_size(x); ++i) ((float *)y->data)[i] += 1;
  return NULL;
}

static int calls = 0;

veery_ffi_error *counted(veery_ffi_frame *frame) {
  VEERY_FFI_BEGIN(frame);
  *(int32_t *)frame->rets.buffers[0]->data = ++calls;
  return NULL;
}

void without_frame(void *out, const void **in, const char *config, size_t size, void *status) {
  float *results[2] = {((float **)out)[0], ((float **)out)[1]};
  results[0][0] = *(const float *)in[0] + size;
  results[1][0] = config[0];
  if (*(const float *)in[0] < 0) *(char *)status = 1;
}
