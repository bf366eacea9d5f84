"""Names of what requests may have, as the server reads them: a test compares /openapi.json."""

from __future__ import annotations

CHAT_FIELDS = frozenset(
    """
    add_generation_prompt allowed_token_ids bad_words best_of cache_salt chat_template_kwargs
    continue_final_message do_sample frequency_penalty guided_choice guided_grammar guided_json
    guided_json_object guided_regex ignore_eos include_reasoning include_stop_str_in_output
    logit_bias logprobs max_completion_tokens max_tokens media_io_kwargs messages min_p min_tokens
    mm_processor_kwargs modalities model n no_repeat_ngram_size ommatidia parallel_tool_calls
    presence_penalty priority prompt_logprobs reasoning_effort repetition_detection
    repetition_penalty request_id response_format return_token_ids seed skip_special_tokens stop
    stop_token_ids stream stream_options structured_outputs temperature thinking_token_budget
    tool_choice tools top_k top_logprobs top_p truncate_prompt_tokens truncation_side vllm_xargs
    """.split()
)

COMPLETION_FIELDS = frozenset(
    """
    allowed_token_ids bad_words best_of cache_salt do_sample echo frequency_penalty guided_choice
    guided_grammar guided_json guided_json_object guided_regex ignore_eos
    include_stop_str_in_output logit_bias logprobs max_completion_tokens max_tokens min_p
    min_tokens model n no_repeat_ngram_size ommatidia presence_penalty priority prompt
    prompt_logprobs repetition_detection repetition_penalty request_id response_format
    return_token_ids seed skip_special_tokens stop stop_token_ids stream stream_options
    structured_outputs suffix temperature thinking_token_budget top_k top_p truncate_prompt_tokens
    truncation_side vllm_xargs
    """.split()
)
