// The classifier in C, by IREE's runtime library alone: classify digits.vmfb weights.bin images.npy
// README.md says how to build it, and where weights.bin comes from.

#include <stdio.h>
#include <stdlib.h>

#include "iree/modules/hal/types.h"
#include "iree/runtime/api.h"

enum { kImages = 16, kPixels = 64, kHidden = 48, kDigits = 10 };

static void read_floats(const char* path, long skipped, float* values, size_t count) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, skipped, SEEK_SET) || fread(values, sizeof(float), count, file) != count) {
    perror(path);
    exit(1);
  }
  fclose(file);
}

// Hands a copy of an array to the call.
static iree_status_t push(iree_runtime_call_t* call, const float* values, size_t rank, const iree_hal_dim_t* shape) {
  size_t count = 1;
  for (size_t i = 0; i < rank; ++i) count *= shape[i];
  iree_hal_buffer_view_t* view = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_buffer_view_allocate_buffer_copy(
      iree_runtime_session_device(call->session), iree_runtime_session_device_allocator(call->session), rank, shape,
      IREE_HAL_ELEMENT_TYPE_FLOAT_32, IREE_HAL_ENCODING_TYPE_DENSE_ROW_MAJOR,
      (iree_hal_buffer_params_t){.type = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL, .usage = IREE_HAL_BUFFER_USAGE_DEFAULT},
      iree_make_const_byte_span(values, count * sizeof(float)), &view));
  iree_status_t status = iree_runtime_call_inputs_push_back_buffer_view(call, view);
  iree_hal_buffer_view_release(view);
  return status;
}

static iree_status_t push_fence(iree_runtime_call_t* call, iree_hal_fence_t* fence) {
  iree_vm_ref_t ref = iree_hal_fence_retain_ref(fence);
  iree_status_t status = iree_vm_list_push_ref_move(iree_runtime_call_inputs(call), &ref);
  iree_vm_ref_release(&ref);
  return status;
}

static iree_status_t classify(iree_runtime_session_t* session, char** files) {
  iree_allocator_t host = iree_runtime_session_host_allocator(session);
  iree_hal_device_t* device = iree_runtime_session_device(session);
  IREE_RETURN_IF_ERROR(iree_runtime_session_append_bytecode_module_from_file(session, files[0]));
  iree_runtime_call_t call;
  IREE_RETURN_IF_ERROR(iree_runtime_call_initialize_by_name(session, iree_make_cstring_view("digits_of.main"), &call));

  // The constants, in the artifact's order, then the images, behind the 128 bytes of the .npy file's header.
  static float weights[kPixels * kHidden + kHidden + kHidden * kDigits + kDigits], images[kImages * kPixels];
  read_floats(files[1], 0, weights, IREE_ARRAYSIZE(weights));
  read_floats(files[2], 128, images, IREE_ARRAYSIZE(images));
  const float *w1 = weights, *b1 = w1 + kPixels * kHidden, *w2 = b1 + kHidden, *b2 = w2 + kHidden * kDigits;
  IREE_RETURN_IF_ERROR(push(&call, w1, 2, (iree_hal_dim_t[]){kPixels, kHidden}));
  IREE_RETURN_IF_ERROR(push(&call, b1, 1, (iree_hal_dim_t[]){kHidden}));
  IREE_RETURN_IF_ERROR(push(&call, w2, 2, (iree_hal_dim_t[]){kHidden, kDigits}));
  IREE_RETURN_IF_ERROR(push(&call, b2, 1, (iree_hal_dim_t[]){kDigits}));
  IREE_RETURN_IF_ERROR(push(&call, images, 2, (iree_hal_dim_t[]){kImages, kPixels}));

  // The function is asynchronous: it starts after the first fence (which is empty: at once) and signals the second.
  iree_hal_semaphore_t* semaphore = NULL;
  iree_hal_fence_t *start = NULL, *finished = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_semaphore_create(device, IREE_HAL_QUEUE_AFFINITY_ANY, 0, 0, &semaphore));
  IREE_RETURN_IF_ERROR(iree_hal_fence_create(0, host, &start));
  IREE_RETURN_IF_ERROR(iree_hal_fence_create_at(semaphore, 1, host, &finished));
  IREE_RETURN_IF_ERROR(push_fence(&call, start));
  IREE_RETURN_IF_ERROR(push_fence(&call, finished));
  IREE_RETURN_IF_ERROR(iree_runtime_call_invoke(&call, 0));
  IREE_RETURN_IF_ERROR(iree_hal_fence_wait(finished, iree_infinite_timeout(), 0));

  float found[kImages][kDigits];
  iree_hal_buffer_view_t* result = NULL;
  IREE_RETURN_IF_ERROR(iree_runtime_call_outputs_pop_front_buffer_view(&call, &result));
  IREE_RETURN_IF_ERROR(iree_hal_device_transfer_d2h(device, iree_hal_buffer_view_buffer(result), 0, found,
                                                    sizeof(found), 0, iree_infinite_timeout()));
  for (int i = 0; i < kImages; ++i) {
    int best = 0;
    for (int j = 1; j < kDigits; ++j) best = found[i][j] > found[i][best] ? j : best;
    printf("%d ", best);
  }
  printf("\n");
  iree_hal_buffer_view_release(result);
  iree_hal_fence_release(finished);
  iree_hal_fence_release(start);
  iree_hal_semaphore_release(semaphore);
  iree_runtime_call_deinitialize(&call);
  return iree_ok_status();
}

static iree_status_t run(char** files) {
  iree_allocator_t host = iree_allocator_system();
  iree_runtime_instance_options_t options;
  iree_runtime_instance_options_initialize(&options);
  iree_runtime_instance_options_use_all_available_drivers(&options);
  iree_runtime_instance_t* instance = NULL;
  iree_hal_device_t* device = NULL;
  iree_runtime_session_t* session = NULL;
  IREE_RETURN_IF_ERROR(iree_runtime_instance_create(&options, host, &instance));
  IREE_RETURN_IF_ERROR(iree_runtime_instance_try_create_default_device(
      instance, iree_make_cstring_view("local-task"), &device));
  iree_runtime_session_options_t session_options;
  iree_runtime_session_options_initialize(&session_options);
  IREE_RETURN_IF_ERROR(iree_runtime_session_create_with_device(instance, &session_options, device, host, &session));
  IREE_RETURN_IF_ERROR(classify(session, files));
  iree_runtime_session_release(session);
  iree_hal_device_release(device);
  iree_runtime_instance_release(instance);
  return iree_ok_status();
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: classify digits.vmfb weights.bin images.npy\n"), 2;
  iree_status_t status = run(argv + 1);
  if (iree_status_is_ok(status)) return 0;
  iree_status_fprint(stderr, status);
  iree_status_free(status);
  return 1;
}
