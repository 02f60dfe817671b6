import { gatewayFields } from '../../../base/domain/chat-fields.ts'
import type { ExtraField } from '../../../base/domain/chat-job.ts'
import type { ProviderKind } from '../../../base/domain/offer.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * The fields of OpenAI's API that every server gets. Left out because clouds charge extra for them:
 * `service_tier` (priority costs twice as much), `web_search_options` (each search), `prompt_cache_retention` and
 * `prompt_cache_options` (longer storage), `moderation`.
 */
const standardFields: ReadonlySet<string> = new Set([
  ...['messages', 'temperature', 'top_p', 'n', 'stop', 'seed', 'frequency_penalty', 'presence_penalty'],
  ...['logit_bias', 'logprobs', 'top_logprobs', 'response_format', 'reasoning_effort', 'verbosity', 'prediction'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'functions', 'function_call', 'modalities', 'audio'],
  ...['user', 'safety_identifier', 'prompt_cache_key', 'store', 'metadata'],
])

/**
 * Settings of vLLM, SGLang, llama.cpp, Ollama and LM Studio that change only how this answer is generated. Local
 * servers and hosters get them; clouds refuse unknown fields. Fields are missing if they cost more than the billed
 * tokens (`best_of`, `use_beam_search`, `prompt_logprobs`), put a request before others (`priority`), address the
 * memory of other requests (`id_slot`, `kv_transfer_params`, `session_params`, `cache_salt`), load something
 * (`lora`, `lora_path`) or run code (`chat_template`, `custom_logit_processor`, `logits_processors`).
 */
const selfHostedFields = [
  ...['top_k', 'top_a', 'min_p', 'typical_p', 'tfs_z', 'top_n_sigma', 'dynatemp_range', 'dynatemp_exponent'],
  ...['repetition_penalty', 'repeat_penalty', 'repeat_last_n', 'mirostat', 'mirostat_tau', 'mirostat_eta'],
  ...['dry_multiplier', 'dry_base', 'dry_allowed_length', 'dry_penalty_last_n', 'dry_sequence_breakers'],
  ...['xtc_probability', 'xtc_threshold', 'stop_token_ids', 'bad_words', 'allowed_token_ids', 'ignore_eos'],
  ...['min_tokens', 'include_stop_str_in_output', 'skip_special_tokens', 'spaces_between_special_tokens'],
  ...['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar', 'structured_outputs'],
  ...['grammar', 'json_schema', 'regex', 'ebnf', 'documents', 'add_generation_prompt', 'continue_final_message'],
  ...['chat_template_kwargs', 'enable_thinking', 'thinking', 'thinking_budget', 'thinking_budget_tokens'],
  ...['reasoning', 'include_reasoning', 'reasoning_format', 'separate_reasoning', 'stream_reasoning'],
]

/** The kinds of servers that get a field besides the standard ones. */
export type ExtraFieldRules = ReadonlyMap<string, ReadonlySet<ProviderKind>>

/**
 * Returns the rules for the fields that only some servers get.
 *
 * @param byKind fields that the configuration adds for a kind of servers
 * @param byEndpoint fields that only the endpoints which name them get (`UpstreamQuirks.forwardFields`)
 * @param selfHosted fields that local servers and hosters get
 */
export function extraFieldRules(
  byKind: Partial<Readonly<Record<ProviderKind, readonly string[]>>> = {},
  byEndpoint: readonly string[] = [],
  selfHosted: readonly string[] = selfHostedFields,
): ExtraFieldRules {
  const rules = new Map<string, Set<ProviderKind>>(selfHosted.map(name => [name, new Set(['local', 'hoster'])]))
  for (const name of byEndpoint) if (!rules.has(name)) rules.set(name, new Set())
  for (const [kind, names] of Object.entries(byKind)) {
    for (const name of names) rules.set(name, new Set(rules.get(name)).add(kind as ProviderKind))
  }
  return rules
}

export interface ForwardedFields {
  /** The fields for the servers, without nulls and fields without effect. */
  readonly forward: JsonObject
  readonly extraFields: readonly ExtraField[]
  readonly droppedFields: readonly string[]
}

/**
 * Splits a request body into the fields that servers get, and the names of those that none gets.
 *
 * @param standard the fields that every server gets; default: those of chat
 */
export function forwardedFields(
  input: JsonObject,
  rules: ExtraFieldRules,
  standard: ReadonlySet<string> = standardFields,
): ForwardedFields {
  const forward: JsonObject = {}
  const extraFields: ExtraField[] = []
  const droppedFields: string[] = []
  for (const name of Object.keys(input)) {
    const value = input[name]
    if (value === null || gatewayFields.has(name)) continue
    if (standard.has(name)) {
      forward[name] = value
      continue
    }
    const kinds = rules.get(name)
    if (kinds === undefined) droppedFields.push(name)
    else {
      forward[name] = value
      extraFields.push({ name, kinds })
    }
  }
  dropWithoutEffect(forward)
  return { forward, extraFields, droppedFields }
}

/**
 * Drops fields that have no effect but that some servers reject. OpenAI and vLLM since 0.20 (pull request
 * 39780) reject an empty list of tools and a tool choice without tools (LiteLLM pull request 39147); vLLM
 * rejects an empty stop sequence; OpenAI rejects metadata unless `store` is set (qwen-code issue 243). Ollama
 * reads an empty list of stop sequences as "never stop" (issue 3629). Whether a request is valid must not
 * depend on the server that gets it.
 */
function dropWithoutEffect(forwarded: JsonObject): void {
  if (isEmptyList(forwarded.tools)) delete forwarded.tools
  if (isEmptyList(forwarded.functions)) delete forwarded.functions
  if (forwarded.tools === undefined) {
    delete forwarded.parallel_tool_calls
    if (isAutoOrNone(forwarded.tool_choice)) delete forwarded.tool_choice
  }
  if (forwarded.functions === undefined && isAutoOrNone(forwarded.function_call)) delete forwarded.function_call
  if (forwarded.stop === '' || isEmptyList(forwarded.stop)) delete forwarded.stop
  if (forwarded.store !== true) delete forwarded.metadata
}

/** True for a choice that demands no tool call. */
function isAutoOrNone(choice: unknown): boolean {
  return choice === 'auto' || choice === 'none'
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}
