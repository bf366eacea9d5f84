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
    c_uint64,
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

LOG_DEBUG = 0
LOG_LINE_SIZE = 512

WEIGHTS_AUTO = 0
WEIGHTS_F32 = 1
WEIGHTS_BF16 = 2
WEIGHTS_INT8 = 3
KV_CACHE_AUTO = 0
KV_CACHE_F32 = 1
KV_CACHE_BF16 = 2
KV_CACHE_INT8 = 3
CHAT_TEMPLATE_OWN = 0
CHAT_TEMPLATE_FAMILY = 1
CHAT_TEMPLATE_UNUSED = 2
TASK_AUTO = 0
TASK_GENERATE = 1
TASK_EMBED = 2
TASK_SCORE = 3
TASK_POOLING = 4
BOX_UNIT_NONE = 0
BOX_UNIT_THOUSANDTHS = 1
BOX_UNIT_RESIZED_PIXELS = 2
INT4_GROUP = 64
MAX_ENGINES = 64

SEQUENCES_GIVEN = 0
SEQUENCES_DEFAULT = 1
SEQUENCES_MEMORY = 2
SEQUENCES_KV_CACHE = 3
FINISH_STOP = 0
FINISH_LENGTH = 1
FINISH_CANCELLED = 2
FINISH_ERROR = 3
FINISH_REPETITION = 4
N_FINISHES = 5
N_STEP_SIZES = 14
MAX_DRAFT_TOKENS = 15

MAX_STOP_STRINGS = 16
MAX_TOP_LOGPROBS = 20
MAX_LOGIT_BIAS = 1024
MAX_BAD_WORDS = 128
MAX_MARK_BYTES = 64

ROLE_SYSTEM = 0
ROLE_USER = 1
ROLE_ASSISTANT = 2
ROLE_TOOL = 3
TOOLS_OBJECTS = 0
TOOLS_SECTIONS = 1
GRAMMAR_JSON_SCHEMA = 0
GRAMMAR_JSON_OBJECT = 1
GRAMMAR_REGEX = 2
GRAMMAR_CHOICE = 3
GRAMMAR_GBNF = 4
REQUEST_DEFAULT = 0
REQUEST_GENERATE = 1
REQUEST_ENCODE = 2
REQUEST_EMBED = 3
REQUEST_SCORE = 4
SCHEDULING_AUTO = 0
SCHEDULING_LATENCY = 1
SCHEDULING_THROUGHPUT = 2
DRAFTS_LOOKUP = 0
DRAFTS_HEAD = 1
DRAFTS_MODEL = 2
STAGE_QUEUED = 0
STAGE_ENCODE = 1
STAGE_PREFILL = 2
STAGE_DECODE = 3
MAX_VIDEO_FRAMES = 768
DEFAULT_PATCH_BUDGET = 16384
DEFAULT_MAX_SEQUENCES = 128
DEFAULT_FULL_SEQUENCES = 8


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


class Log(Structure):
    _fields_ = [
        ("context", c_void_p),
        ("line", c_void_p),
    ]


class QuantizationMethod(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("format", c_char_p),
        ("packing_share", c_double),
    ]


class ModelOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("weights", c_int),
        ("vision_weights", c_int),
        ("kv_cache", c_int),
        ("quantization", c_char_p),
        ("isa", c_char_p),
        ("n_threads", c_int),
        ("no_pinning", c_bool),
        ("config_only", c_bool),
        ("encoder_only", c_bool),
        ("max_model_len", c_int64),
        ("max_resized_bytes", c_int64),
        ("known_image_bytes", c_int64),
        ("chat_template", c_int),
        ("chat_template_file", c_char_p),
        ("generation_config", c_char_p),
        ("override_generation_config", c_char_p),
        ("mmproj", c_char_p),
        ("allocator", c_void_p),
        ("log", POINTER(Log)),
        ("progress", c_void_p),
        ("progress_context", c_void_p),
        ("before_weights", c_void_p),
        ("before_weights_context", c_void_p),
        ("task", c_int),
        ("draft_head", c_bool),
        ("draft_model", c_char_p),
        ("n_engines", c_int),
    ]


class ModelInfo(Structure):
    _fields_ = [
        ("directory", c_char_p),
        ("model_type", c_char_p),
        ("isa", c_char_p),
        ("weights", c_char_p),
        ("vision_weights", c_char_p),
        ("kept_weights", c_char_p),
        ("kept_group", c_int64),
        ("quantization", c_char_p),
        ("kv_cache", c_char_p),
        ("linear", c_char_p),
        ("n_threads", c_int),
        ("n_engines", c_int),
        ("n_copies", c_int),
        ("encoder_only", c_bool),
        ("bf16_embeddings", c_bool),
        ("fingerprint", c_char_p),
        ("n_parameters", c_int64),
        ("n_vision_parameters", c_int64),
        ("weight_bytes", c_int64),
        ("max_model_len", c_int64),
        ("vocab_size", c_int64),
        ("hidden_size", c_int64),
        ("n_layers", c_int64),
        ("n_heads", c_int64),
        ("n_kv_heads", c_int64),
        ("head_dim", c_int64),
        ("vision_hidden_size", c_int64),
        ("vision_depth", c_int64),
        ("vision_n_heads", c_int64),
        ("vision_head_dim", c_int64),
        ("patch_size", c_int64),
        ("merge_size", c_int64),
        ("patch_dim", c_int64),
        ("n_deepstack", c_int64),
        ("min_pixels", c_int64),
        ("max_pixels", c_int64),
        ("published_values", c_char_p),
        ("chat_template", c_char_p),
        ("chat_template_difference", c_char_p),
        ("chat_template_has_tools", c_bool),
        ("box_unit", c_int),
        ("recommended_temperature", c_double),
        ("recommended_top_p", c_double),
        ("recommended_min_p", c_double),
        ("recommended_repetition_penalty", c_double),
        ("recommended_presence_penalty", c_double),
        ("recommended_frequency_penalty", c_double),
        ("recommended_top_k", c_int64),
        ("recommended_max_tokens", c_int64),
        ("max_tokens_limit", c_int64),
        ("task", c_int),
        ("max_input_tokens", c_int64),
        ("token_vector_width", c_int64),
    ]


class Machine(Structure):
    _fields_ = [
        ("n_threads", c_int),
        ("f32_gflops", c_double),
        ("bf16_gflops", c_double),
    ]


class MemoryEstimate(Structure):
    _fields_ = [
        ("weight_bytes", c_int64),
        ("kv_cache_bytes", c_int64),
        ("kv_cache_tokens", c_int64),
        ("kv_page_bytes", c_int64),
        ("max_model_len", c_int64),
        ("vision_workspace_bytes", c_int64),
        ("language_workspace_bytes", c_int64),
        ("linear_scratch_bytes", c_int64),
        ("table_bytes", c_int64),
        ("encoder_cache_bytes", c_int64),
        ("known_image_bytes", c_int64),
        ("request_bytes", c_int64),
        ("text_request_bytes", c_int64),
        ("max_sequences", c_int64),
        ("max_image_sequences", c_int64),
        ("sequence_bound", c_int),
        ("total_bytes", c_int64),
    ]


class EngineStats(Structure):
    _fields_ = [
        ("n_waiting", c_int64),
        ("n_running", c_int64),
        ("max_sequences", c_int64),
        ("waiting_bytes", c_int64),
        ("n_finished", c_int64 * 5),
        ("prompt_tokens", c_int64),
        ("generation_tokens", c_int64),
        ("cached_prompt_tokens", c_int64),
        ("images", c_int64),
        ("patches", c_int64),
        ("encoder_passes", c_int64),
        ("encoder_cache_bytes", c_int64),
        ("encoder_cache_hits", c_int64),
        ("encoder_cache_misses", c_int64),
        ("encoder_cache_evictions", c_int64),
        ("encoding_store_hits", c_int64),
        ("encoding_store_misses", c_int64),
        ("encoding_store_not_finite", c_int64),
        ("kv_pages", c_int64),
        ("kv_pages_used", c_int64),
        ("kv_pages_kept", c_int64),
        ("kv_pages_published", c_int64),
        ("snapshots", c_int64),
        ("snapshot_bytes", c_int64),
        ("snapshots_used", c_int64),
        ("snapshots_published", c_int64),
        ("snapshot_hits", c_int64),
        ("snapshot_evictions", c_int64),
        ("prefix_cache", c_bool),
        ("prefix_cache_queries", c_int64),
        ("prefix_cache_hits", c_int64),
        ("n_drafts", c_int64),
        ("draft_tokens", c_int64),
        ("accepted_tokens", c_int64),
        ("accepted_by_place", c_int64 * 15),
        ("draft_gain", c_double),
        ("steps_by_tokens", c_int64 * 14),
        ("step_tokens", c_int64),
        ("decode_steps", c_int64),
        ("decode_seconds", c_double),
        ("decode_model_seconds", c_double),
        ("n_preemptions", c_int64),
        ("n_preempted", c_int64),
        ("workspace_bytes", c_int64),
        ("alive", c_bool),
    ]


class LogitBias(Structure):
    _fields_ = [
        ("token", c_int32),
        ("bias", c_float),
    ]


class RepetitionDetection(Structure):
    _fields_ = [
        ("max_pattern_size", c_int64),
        ("min_pattern_size", c_int64),
        ("min_count", c_int64),
    ]


class Reasoning(Structure):
    _fields_ = [
        ("begin", c_char_p),
        ("end", c_char_p),
        ("forced_end", c_char_p),
        ("answer_begin", c_char_p),
    ]


class Sampling(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("temperature", c_double),
        ("top_p", c_double),
        ("min_p", c_double),
        ("top_k", c_int64),
        ("seed", c_uint64),
        ("repetition_penalty", c_double),
        ("presence_penalty", c_double),
        ("frequency_penalty", c_double),
        ("max_tokens", c_int64),
        ("min_tokens", c_int64),
        ("stop", c_void_p),
        ("n_stop", c_size_t),
        ("stop_token_ids", c_void_p),
        ("n_stop_token_ids", c_size_t),
        ("ignore_eos", c_bool),
        ("include_stop", c_bool),
        ("keep_special_tokens", c_bool),
        ("logprobs", c_bool),
        ("n_top_logprobs", c_int),
        ("prompt_logprobs", c_bool),
        ("n_prompt_logprobs", c_int),
        ("logit_bias", POINTER(LogitBias)),
        ("n_logit_bias", c_size_t),
        ("allowed_token_ids", c_void_p),
        ("n_allowed_token_ids", c_size_t),
        ("bad_words", c_void_p),
        ("n_bad_words", c_size_t),
        ("grammar", c_void_p),
        ("reasoning", POINTER(Reasoning)),
        ("limits_thinking", c_bool),
        ("max_thinking_tokens", c_int64),
        ("no_repeat_ngram_size", c_int64),
        ("repetition_detection", RepetitionDetection),
    ]


class ImageLimits(Structure):
    _fields_ = [
        ("max_bytes", c_int64),
        ("max_side", c_int64),
        ("max_pixels", c_int64),
        ("max_cpu_ms", c_int64),
    ]


class ImageHeader(Structure):
    _fields_ = [
        ("width", c_int32),
        ("height", c_int32),
        ("decode_bytes", c_int64),
    ]


class ImageOptions(Structure):
    _fields_ = [
        ("min_pixels", c_int64),
        ("max_pixels", c_int64),
    ]


class ImageSizes(Structure):
    _fields_ = [
        ("width", c_int32),
        ("height", c_int32),
        ("resized_width", c_int32),
        ("resized_height", c_int32),
        ("grid_thw", c_int64 * 3),
        ("n_patches", c_int64),
        ("n_tokens", c_int64),
        ("n_segments", c_int64),
        ("n_windows", c_int64),
        ("flops", c_double),
        ("resize_bytes", c_int64),
    ]


class TextCost(Structure):
    _fields_ = [
        ("prompt_flops", c_double),
        ("step_weight_bytes", c_int64),
        ("step_kv_bytes", c_int64),
    ]


class Video(Structure):
    _fields_ = [
        ("frames", c_void_p),
        ("n_frames", c_size_t),
        ("fps", c_double),
    ]


class Part(Structure):
    _fields_ = [
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("image", c_void_p),
        ("image_options", ImageOptions),
        ("image_name", c_char_p),
        ("image_name_suffices", c_bool),
        ("video", POINTER(Video)),
    ]


class Message(Structure):
    _fields_ = [
        ("role", c_int),
        ("parts", POINTER(Part)),
        ("n_parts", c_size_t),
        ("fields", c_char_p),
    ]


class GrammarOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("compact_json", c_bool),
        ("max_cpu_ms", c_int64),
    ]


class Truncation(Structure):
    _fields_ = [
        ("n_tokens", c_int64),
        ("keep_first", c_bool),
    ]


class RequestOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("continue_final_message", c_bool),
        ("no_generation_prompt", c_bool),
        ("max_model_len", c_int64),
        ("priority", c_int64),
        ("whole", c_bool),
        ("cache_salt", c_char_p),
        ("tools", c_char_p),
        ("chat_template_kwargs", c_char_p),
        ("truncation", Truncation),
        ("dimensions", c_int64),
        ("raw_vectors", c_int64),
        ("is_document", c_int64),
        ("reserved", c_int64 * 5),
        ("sampling", Sampling),
    ]


class EngineOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("kv_cache_bytes", c_int64),
        ("patch_budget", c_int64),
        ("prefill_chunk", c_int64),
        ("queue_limit", c_int64),
        ("encoder_cache_bytes", c_int64),
        ("encoding_store", c_void_p),
        ("kv_events", c_void_p),
        ("slice_ms", c_int64),
        ("slice_percent", c_int64),
        ("max_sequences", c_int64),
        ("reserve_tokens", c_int64),
        ("draft_tokens", c_int64),
        ("lookup_min", c_int64),
        ("lookup_max", c_int64),
        ("no_prefix_cache", c_bool),
        ("by_priority", c_bool),
        ("scheduling", c_int),
        ("max_wait_ms", c_int64),
        ("queue_bytes", c_int64),
        ("team", c_void_p),
        ("drafting", c_int),
        ("stuck_ms", c_int64),
        ("on_engine_state", c_void_p),
        ("on_engine_state_context", c_void_p),
    ]


class TopLogprob(Structure):
    _fields_ = [
        ("token", c_int32),
        ("logprob", c_float),
    ]


class TokenEvent(Structure):
    _fields_ = [
        ("index", c_int64),
        ("token", c_int32),
        ("text", c_char_p),
        ("text_size", c_size_t),
        ("reasoning", c_char_p),
        ("reasoning_size", c_size_t),
        ("in_reasoning", c_bool),
        ("has_logprob", c_bool),
        ("logprob", c_float),
        ("top", POINTER(TopLogprob)),
        ("n_top", c_int),
        ("last", c_bool),
        ("finish", c_int),
        ("engine", c_int),
    ]


class PromptTokenEvent(Structure):
    _fields_ = [
        ("index", c_int64),
        ("rank", c_int64),
        ("token", c_int32),
        ("logprob", c_float),
        ("top", POINTER(TopLogprob)),
        ("n_top", c_int),
    ]


class Timings(Structure):
    _fields_ = [
        ("queue", c_double),
        ("preprocess", c_double),
        ("encode", c_double),
        ("prefill", c_double),
        ("decode", c_double),
    ]


class Result(Structure):
    _fields_ = [
        ("finish", c_int),
        ("n_prompt_tokens", c_int64),
        ("n_completion_tokens", c_int64),
        ("n_reasoning_tokens", c_int64),
        ("n_cached_tokens", c_int64),
        ("n_preemptions", c_int64),
        ("stop_token", c_int32),
        ("stop_string", c_char_p),
        ("timings", Timings),
        ("error", Error),
        ("engine", c_int),
    ]


class Callbacks(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("context", c_void_p),
        ("on_progress", c_void_p),
        ("on_token", c_void_p),
        ("on_finish", c_void_p),
        ("on_prompt_token", c_void_p),
        ("on_embeddings", c_void_p),
        ("on_vectors", c_void_p),
    ]


class ImageEmbeddings(Structure):
    _fields_ = [
        ("grid_thw", c_int64 * 3),
        ("n_tokens", c_int64),
        ("width", c_int64),
        ("merged", c_void_p),
        ("n_deepstack", c_int64),
        ("deepstack", c_void_p),
    ]


class EncodeTimings(Structure):
    _fields_ = [
        ("total", c_double),
        ("preprocess", c_double),
        ("patch_embed", c_double),
        ("attention", c_double),
        ("linear", c_double),
        ("rest", c_double),
        ("longest_slice", c_double),
        ("n_slices", c_int64),
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


class ServiceOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("model_name", c_char_p),
        ("reasoning_parser", c_char_p),
        ("tool_call_parser", c_char_p),
        ("image_options", ImageOptions),
        ("max_images", c_int64),
        ("max_videos", c_int64),
        ("seeded", c_bool),
        ("seed", c_uint64),
        ("allowed_media_domains", c_void_p),
        ("n_allowed_media_domains", c_size_t),
        ("n_workers", c_int),
        ("allocator", c_void_p),
    ]


class ServiceNews(Structure):
    _fields_ = [
        ("status", c_int),
        ("stream", c_bool),
        ("ended", c_bool),
        ("text", c_void_p),
        ("size", c_size_t),
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
    "omma_log": Log,
    "omma_quantization_method": QuantizationMethod,
    "omma_model_options": ModelOptions,
    "omma_model_info": ModelInfo,
    "omma_machine": Machine,
    "omma_memory_estimate": MemoryEstimate,
    "omma_engine_stats": EngineStats,
    "omma_logit_bias": LogitBias,
    "omma_repetition_detection": RepetitionDetection,
    "omma_reasoning": Reasoning,
    "omma_sampling": Sampling,
    "omma_image_limits": ImageLimits,
    "omma_image_header": ImageHeader,
    "omma_image_options": ImageOptions,
    "omma_image_sizes": ImageSizes,
    "omma_text_cost": TextCost,
    "omma_video": Video,
    "omma_part": Part,
    "omma_message": Message,
    "omma_grammar_options": GrammarOptions,
    "omma_truncation": Truncation,
    "omma_request_options": RequestOptions,
    "omma_engine_options": EngineOptions,
    "omma_top_logprob": TopLogprob,
    "omma_token_event": TokenEvent,
    "omma_prompt_token_event": PromptTokenEvent,
    "omma_timings": Timings,
    "omma_result": Result,
    "omma_callbacks": Callbacks,
    "omma_image_embeddings": ImageEmbeddings,
    "omma_encode_timings": EncodeTimings,
    "omma_tower_tensor": TowerTensor,
    "omma_tower_options": TowerOptions,
    "omma_tower_info": TowerInfo,
    "omma_tower_input": TowerInput,
    "omma_service_options": ServiceOptions,
    "omma_service_news": ServiceNews,
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
    "omma_quantization_method": (
        c_bool,
        [c_int, POINTER(QuantizationMethod)],
    ),
    "omma_model_open": (
        c_int,
        [c_char_p, POINTER(ModelOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_model_close": (
        None,
        [c_void_p],
    ),
    "omma_model_get_info": (
        None,
        [c_void_p, POINTER(ModelInfo)],
    ),
    "omma_model_verify": (
        c_int,
        [c_void_p, c_void_p, c_void_p, POINTER(Error)],
    ),
    "omma_self_test": (
        c_int,
        [c_char_p, c_void_p, c_void_p, POINTER(Error)],
    ),
    "omma_describe_kernels": (
        c_int,
        [c_char_p, c_void_p, c_void_p, POINTER(Error)],
    ),
    "omma_measure_machine": (
        c_int,
        [c_char_p, c_int, POINTER(Machine), POINTER(Error)],
    ),
    "omma_cpu_note": (
        c_char_p,
        [c_char_p, c_char_p, c_size_t],
    ),
    "omma_measure_read": (
        c_int,
        [c_int, POINTER(c_double), POINTER(Error)],
    ),
    "omma_reasoning_find": (
        c_int,
        [c_char_p, POINTER(Reasoning), POINTER(Error)],
    ),
    "omma_version": (
        c_char_p,
        [],
    ),
    "omma_image_probe": (
        c_int,
        [c_void_p, c_size_t, POINTER(ImageLimits), POINTER(ImageHeader), POINTER(Error)],
    ),
    "omma_image_decode": (
        c_int,
        [c_void_p, c_size_t, POINTER(ImageLimits), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_image_load": (
        c_int,
        [c_char_p, POINTER(ImageLimits), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_image_from_rgb": (
        c_int,
        [c_int32, c_int32, c_void_p, POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_image_width": (
        c_int32,
        [c_void_p],
    ),
    "omma_image_height": (
        c_int32,
        [c_void_p],
    ),
    "omma_image_pixels": (
        c_void_p,
        [c_void_p],
    ),
    "omma_image_destroy": (
        None,
        [c_void_p],
    ),
    "omma_model_image_sizes": (
        c_int,
        [c_void_p, c_int32, c_int32, POINTER(ImageOptions), POINTER(ImageSizes), POINTER(Error)],
    ),
    "omma_model_video_sizes": (
        c_int,
        [c_void_p, c_int32, c_int32, c_size_t, POINTER(ImageOptions), POINTER(ImageSizes), POINTER(Error)],
    ),
    "omma_image_recall": (
        c_int,
        [c_void_p, c_void_p, c_size_t, POINTER(ImageLimits), POINTER(ImageOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_preprocess": (
        c_int,
        [c_void_p, c_void_p, POINTER(ImageOptions), POINTER(c_float), c_size_t, POINTER(Error)],
    ),
    "omma_tokenize": (
        c_int,
        [c_void_p, c_char_p, c_size_t, POINTER(c_int32), c_size_t, POINTER(c_size_t), POINTER(Error)],
    ),
    "omma_count_tokens": (
        c_int,
        [c_void_p, c_char_p, c_size_t, c_size_t, POINTER(c_size_t), POINTER(Error)],
    ),
    "omma_detokenize": (
        c_int,
        [c_void_p, POINTER(c_int32), c_size_t, c_bool, c_char_p, c_size_t, POINTER(c_size_t), POINTER(Error)],
    ),
    "omma_model_text_cost": (
        c_int,
        [c_void_p, c_int64, POINTER(TextCost), POINTER(Error)],
    ),
    "omma_tool_parser_find": (
        c_int,
        [c_char_p, POINTER(c_int), POINTER(Error)],
    ),
    "omma_grammar_create": (
        c_int,
        [c_void_p, POINTER(GrammarOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_grammar_share": (
        c_void_p,
        [c_void_p],
    ),
    "omma_grammar_bytes": (
        c_size_t,
        [c_void_p],
    ),
    "omma_grammar_is_shared": (
        c_bool,
        [c_void_p],
    ),
    "omma_grammar_destroy": (
        None,
        [c_void_p],
    ),
    "omma_request_create": (
        c_int,
        [c_void_p, POINTER(Message), c_size_t, POINTER(RequestOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_count_prompt_tokens": (
        c_int,
        [c_void_p, POINTER(Message), c_size_t, POINTER(RequestOptions), POINTER(c_int64), POINTER(Error)],
    ),
    "omma_request_create_tokens": (
        c_int,
        [c_void_p, POINTER(c_int32), c_size_t, POINTER(RequestOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_request_copy": (
        c_int,
        [c_void_p, POINTER(Sampling), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_request_destroy": (
        None,
        [c_void_p],
    ),
    "omma_request_prompt": (
        POINTER(c_int32),
        [c_void_p, POINTER(c_size_t)],
    ),
    "omma_estimate_memory": (
        c_int,
        [c_void_p, POINTER(EngineOptions), c_int64, POINTER(MemoryEstimate), POINTER(Error)],
    ),
    "omma_engine_create": (
        c_int,
        [c_void_p, POINTER(EngineOptions), POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_engine_max_model_len": (
        c_int64,
        [c_void_p],
    ),
    "omma_engine_count": (
        c_int,
        [c_void_p],
    ),
    "omma_engine_get_stats_of": (
        None,
        [c_void_p, c_int, POINTER(EngineStats)],
    ),
    "omma_engine_sleep": (
        c_int,
        [c_void_p, POINTER(Error)],
    ),
    "omma_engine_wake": (
        None,
        [c_void_p],
    ),
    "omma_engine_destroy": (
        None,
        [c_void_p],
    ),
    "omma_engine_submit": (
        c_int,
        [c_void_p, c_void_p, POINTER(Callbacks), POINTER(c_uint64), POINTER(Error)],
    ),
    "omma_engine_cancel": (
        None,
        [c_void_p, c_uint64],
    ),
    "omma_generate": (
        c_int,
        [c_void_p, c_void_p, POINTER(Callbacks), POINTER(Result), POINTER(Error)],
    ),
    "omma_engine_get_stats": (
        None,
        [c_void_p, POINTER(EngineStats)],
    ),
    "omma_encode": (
        c_int,
        [c_void_p, POINTER(c_void_p), c_size_t, POINTER(ImageOptions), c_bool, c_void_p, c_void_p, POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_embeddings_get": (
        None,
        [c_void_p, c_size_t, POINTER(ImageEmbeddings)],
    ),
    "omma_embeddings_copy_rows": (
        None,
        [c_void_p, c_size_t, c_int, c_void_p],
    ),
    "omma_embeddings_get_timings": (
        None,
        [c_void_p, POINTER(EncodeTimings)],
    ),
    "omma_embeddings_destroy": (
        None,
        [c_void_p],
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

SERVICE_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "omma_service_create": (
        c_int,
        [POINTER(ServiceOptions), c_void_p, c_void_p, POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_service_destroy": (
        None,
        [c_void_p],
    ),
    "omma_service_begin": (
        c_int,
        [c_void_p, c_char_p, c_char_p, c_size_t, c_int, POINTER(c_void_p), POINTER(Error)],
    ),
    "omma_service_take": (
        c_int,
        [c_void_p, POINTER(ServiceNews), POINTER(Error)],
    ),
    "omma_service_end": (
        None,
        [c_void_p],
    ),
}
