// The part of librknnrt.so's C interface that the program uses, in our words: published sizes, offsets, names and
// signatures, and no line of Rockchip's text. tests/backends/rknn_abi.json is what compilers said of the real header.

#ifndef RKNN_API_H
#define RKNN_API_H

#include <stdint.h>

#define RKNN_MAX_DIMS 16
#define RKNN_MAX_NAME_LEN 256
#define RKNN_VERSION_LEN 256

#define RKNN_SUCC 0
#define RKNN_ERR_PARAM_INVALID (-5)
#define RKNN_ERR_MODEL_INVALID (-6)
#define RKNN_ERR_CTX_INVALID (-7)
#define RKNN_ERR_INPUT_INVALID (-8)
#define RKNN_ERR_OUTPUT_INVALID (-9)

#ifdef __arm__
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

typedef enum {
    RKNN_QUERY_IN_OUT_NUM = 0,
    RKNN_QUERY_INPUT_ATTR = 1,
    RKNN_QUERY_OUTPUT_ATTR = 2,
    RKNN_QUERY_SDK_VERSION = 5,
} rknn_query_cmd;

typedef enum { RKNN_TENSOR_FLOAT32 = 0, RKNN_TENSOR_UINT8 = 3 } rknn_tensor_type;
typedef enum { RKNN_TENSOR_QNT_NONE = 0 } rknn_tensor_qnt_type;
typedef enum { RKNN_TENSOR_NCHW = 0, RKNN_TENSOR_NHWC = 1, RKNN_TENSOR_UNDEFINED = 3 } rknn_tensor_format;
typedef enum { RKNN_NPU_CORE_AUTO = 0, RKNN_NPU_CORE_ALL = 0xffff } rknn_core_mask;

typedef struct {
    uint32_t n_input;
    uint32_t n_output;
} rknn_input_output_num;

typedef struct {
    uint32_t index;
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS];
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_elems;
    uint32_t size;
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride;
    uint32_t size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

typedef struct {
    char api_version[RKNN_VERSION_LEN];
    char drv_version[RKNN_VERSION_LEN];
} rknn_sdk_version;

typedef struct {
    uint32_t index;
    void* buf;
    uint32_t size;
    uint8_t pass_through;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;

typedef struct {
    uint8_t want_float;
    uint8_t is_prealloc;
    uint32_t index;
    void* buf;
    uint32_t size;
} rknn_output;

#pragma GCC visibility push(default)

int rknn_init(rknn_context* context, void* model, uint32_t size, uint32_t flag, void* extend);
int rknn_destroy(rknn_context context);
int rknn_query(rknn_context context, rknn_query_cmd cmd, void* info, uint32_t size);
int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask);
int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]);
int rknn_run(rknn_context context, void* extend);
int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[], void* extend);
int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]);

#pragma GCC visibility pop

#endif
