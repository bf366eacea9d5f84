"""The C interface as ctypes sees it.

Made by tools/make_declarations.py from include/omma; do not edit."""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)
from typing import Any

OK = 0
ERROR_ARGUMENT = 1
ERROR_MEMORY = 2
ERROR_IO = 3
ERROR_FORMAT = 4
ERROR_UNSUPPORTED = 5
ERROR_LIMIT = 6
ERROR_BUSY = 7
ERROR_CANCELLED = 8
ERROR_INTERNAL = 9
ERROR_MESSAGE_SIZE = 512
ERROR_FIELD_SIZE = 48

TEAM_MAX_THREADS = 1024

F32 = 0
BF16 = 1
F16 = 2
INT8 = 3
INDEX_INT32 = 0
INDEX_INT64 = 1
ATTENTION_ENCODER = 0
ATTENTION_CAUSAL = 1
ATTENTION_DECODE = 2
ATTENTION_MAX_HEAD_DIM = 256
ATTENTION_MAX_DECODE_HEAD_DIM = 1024
ATTENTION_PAGE_TOKENS = 64
ATTENTION_MAX_HEADS = 4096


class Error(Structure):
    _fields_ = [
        ("status", c_int),
        ("field", c_char * 48),
        ("message", c_char * 512),
    ]


class Allocator(Structure):
    _fields_ = [
        ("context", c_void_p),
        ("allocate", c_void_p),
        ("release", c_void_p),
    ]


class Team(Structure):
    _fields_ = [
        ("context", c_void_p),
        ("n_workers", c_int),
        ("run", c_void_p),
    ]


class OpenmpTeam(Structure):
    _fields_ = [
        ("team", Team),
        ("parallel", c_void_p),
    ]


class AttentionOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("isa", c_char_p),
        ("allocator", c_void_p),
    ]


class AttentionSpec(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("mode", c_int),
        ("dtype", c_int),
        ("n_heads", c_int32),
        ("n_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("v_head_dim", c_int32),
        ("scale", c_float),
        ("n_tokens", c_int64),
        ("n_kv_tokens", c_int64),
        ("index_type", c_int),
        ("n_segments", c_int64),
        ("cu_seqlens", c_void_p),
        ("cu_seqlens_k", c_void_p),
        ("batch", c_int64),
        ("max_seqlen", c_int64),
        ("q_offsets", c_void_p),
        ("window", c_int64),
        ("paged", c_bool),
        ("bf16_kv", c_bool),
        ("int8_kv", c_bool),
        ("int8_scores", c_bool),
    ]


class AttentionPlanInfo(Structure):
    _fields_ = [
        ("n_segments", c_int64),
        ("n_waves", c_int64),
        ("n_steps", c_int64),
        ("flops", c_double),
        ("plan_bytes", c_size_t),
        ("scale", c_float),
        ("kernel", c_char_p),
    ]


class AttentionTensors(Structure):
    _fields_ = [
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("out", c_void_p),
        ("q_token_stride", c_int64),
        ("q_head_stride", c_int64),
        ("k_token_stride", c_int64),
        ("k_head_stride", c_int64),
        ("v_token_stride", c_int64),
        ("v_head_stride", c_int64),
        ("out_token_stride", c_int64),
        ("out_head_stride", c_int64),
        ("page_table", c_void_p),
        ("page_table_stride", c_int64),
        ("k_page_stride", c_int64),
        ("v_page_stride", c_int64),
        ("k_scales", c_void_p),
        ("v_scales", c_void_p),
        ("k_scale_head_stride", c_int64),
        ("v_scale_head_stride", c_int64),
        ("k_scale_page_stride", c_int64),
        ("v_scale_page_stride", c_int64),
    ]


class LayoutRow(Structure):
    _fields_ = [
        ("structure", c_char_p),
        ("member", c_char_p),
        ("offset", c_int64),
        ("size", c_int64),
    ]


class TowerTensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("n_dims", c_int),
        ("shape", c_int64 * 8),
        ("data", c_void_p),
    ]


class TowerOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("weights", c_int),
        ("isa", c_char_p),
        ("n_threads", c_int),
        ("tensors", POINTER(TowerTensor)),
        ("n_tensors", c_size_t),
        ("config_only", c_bool),
        ("allocator", c_void_p),
    ]


class TowerInfo(Structure):
    _fields_ = [
        ("model_type", c_char_p),
        ("isa", c_char_p),
        ("weights", c_char_p),
        ("n_threads", c_int),
        ("n_parameters", c_int64),
        ("weight_bytes", c_int64),
        ("depth", c_int64),
        ("hidden_size", c_int64),
        ("n_heads", c_int64),
        ("patch_size", c_int64),
        ("temporal_patch_size", c_int64),
        ("merge_size", c_int64),
        ("patch_dim", c_int64),
        ("width", c_int64),
        ("n_deepstack", c_int64),
    ]


class TowerInput(Structure):
    _fields_ = [
        ("patches", c_void_p),
        ("type", c_int),
        ("grid_thw", c_int64 * 3),
        ("output", c_void_p),
    ]


STRUCTS: dict[str, type[Structure]] = {
    "omma_error": Error,
    "omma_allocator": Allocator,
    "omma_team": Team,
    "omma_openmp_team": OpenmpTeam,
    "omma_attention_options": AttentionOptions,
    "omma_attention_spec": AttentionSpec,
    "omma_attention_plan_info": AttentionPlanInfo,
    "omma_attention_tensors": AttentionTensors,
    "omma_layout_row": LayoutRow,
    "omma_tower_tensor": TowerTensor,
    "omma_tower_options": TowerOptions,
    "omma_tower_info": TowerInfo,
    "omma_tower_input": TowerInput,
}

ATTENTION_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "omma_status_name": (
        c_char_p,
        [c_int],
    ),
    "omma_team_cpu_count": (
        c_int,
        [],
    ),
    "omma_team_create": (
        c_int,
        [c_int, c_bool, c_void_p, POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_team_destroy": (
        None,
        [c_void_p],
    ),
    "omma_openmp_team_init": (
        c_int,
        [POINTER(OpenmpTeam), c_void_p, c_int, POINTER(Error)],
    ),
    "omma_attention_context_create": (
        c_int,
        [POINTER(AttentionOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_attention_context_destroy": (
        None,
        [c_void_p],
    ),
    "omma_attention_context_isa": (
        c_char_p,
        [c_void_p],
    ),
    "omma_attention_kernel_name": (
        c_char_p,
        [c_void_p, c_int, c_int, c_int32, c_int32],
    ),
    "omma_attention_self_test": (
        c_int,
        [c_void_p, POINTER(Error)],
    ),
    "omma_attention_plan_create": (
        c_int,
        [c_void_p, POINTER(AttentionSpec), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_attention_plan_destroy": (
        None,
        [c_void_p],
    ),
    "omma_attention_plan_size_bound": (
        c_size_t,
        [c_void_p, POINTER(AttentionSpec)],
    ),
    "omma_attention_plan_place": (
        c_int,
        [c_void_p, POINTER(AttentionSpec), c_void_p, c_size_t, POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_attention_plan_get_info": (
        None,
        [c_void_p, POINTER(AttentionPlanInfo)],
    ),
    "omma_attention_plan_workspace_size": (
        c_size_t,
        [c_void_p, c_int],
    ),
    "omma_attention_workspace_bound": (
        c_size_t,
        [c_void_p, POINTER(AttentionSpec), c_int],
    ),
    "omma_attention_run": (
        c_int,
        [c_void_p, POINTER(AttentionTensors), c_void_p, c_size_t, c_void_p, POINTER(Error)],
    ),
    "omma_attention_run_range": (
        c_int,
        [c_void_p, POINTER(AttentionTensors), c_void_p, c_size_t, c_void_p, c_int64, c_int64, POINTER(Error)],
    ),
    "omma_attention_layout": (
        POINTER(LayoutRow),
        [POINTER(c_size_t)],
    ),
}

OMMA_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "omma_layout": (
        POINTER(LayoutRow),
        [POINTER(c_size_t)],
    ),
    "omma_tower_open": (
        c_int,
        [c_char_p, POINTER(TowerOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_tower_close": (
        None,
        [c_void_p],
    ),
    "omma_tower_get_info": (
        None,
        [c_void_p, POINTER(TowerInfo)],
    ),
    "omma_tower_workspace_size": (
        c_int,
        [c_void_p, POINTER(TowerInput), c_size_t, c_int, POINTER(c_size_t), POINTER(Error)],
    ),
    "omma_tower_encode": (
        c_int,
        [c_void_p, POINTER(TowerInput), c_size_t, c_void_p, c_size_t, c_void_p, POINTER(Error)],
    ),
}
