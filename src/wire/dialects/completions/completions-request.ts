import { type ChatJob, type Feature, routingOf } from '../../../base/domain/chat-job.ts'
import { ApiError } from '../../../base/domain/errors.ts'
import { fewestTokens } from '../../../base/domain/request-bounds.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { type ExtraFieldRules, extraFieldRules, forwardedFields } from '../chat/upstream-request.ts'
import { checkFields } from '../check-fields.ts'
import { mayHaveLoneSurrogates, parseJsonObject, replaceLoneSurrogates } from '../json/parse-json.ts'
import { readTextInput } from '../read-text-input.ts'
import { completionsBounds as bounds, completionsFieldsSchema } from './completions-request-schema.ts'

/** The fields of OpenAI's API that every server gets. */
const standardFields: ReadonlySet<string> = new Set([
  ...['prompt', 'suffix', 'n', 'logprobs', 'temperature', 'top_p', 'stop', 'seed'],
  ...['frequency_penalty', 'presence_penalty', 'logit_bias', 'user'],
])

const usualRules = extraFieldRules()

/** A list of token ids has a comma for each. */
const DELIMITERS_MAX = bounds.tokens + 65_536
/** OpenAI's default for this endpoint. */
const DEFAULT_MAX_TOKENS = 16
/** What a server may add to a prompt: the tokens that begin it, and those around a gap. */
const TOKENS_PER_PROMPT = 32

const promptRules = { field: 'prompt', inputsMax: bounds.prompts, tokensMax: bounds.tokens, mayBeEmpty: true }

/**
 * Parses the body of `POST /v1/completions`. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`,
 * with the `param` at fault where there is one.
 */
export function parseCompletionsRequest(body: Buffer, rules: ExtraFieldRules = usualRules): ChatJob {
  const input = parseJsonObject(body, DELIMITERS_MAX)
  const fields = checkFields(completionsFieldsSchema, input)
  refuseUnbilled(input, fields.n ?? 1)
  const { forward, extraFields, droppedFields } = forwardedFields(input, rules, standardFields)
  if (mayHaveLoneSurrogates(body)) replaceLoneSurrogates(forward)
  const { texts, inputs, textBytes, tokens, longestTokensMin } = readTextInput(forward.prompt, promptRules)
  const choices = choicesOf(inputs, fields.n ?? 1)
  const suffix = (forward.suffix as string | undefined) ?? ''
  const suffixBytes = Buffer.byteLength(suffix)
  const promptTextBytes = textBytes + suffixBytes * inputs
  refuseLongSuffix(promptTextBytes, inputs)
  return {
    task: 'completions',
    model: fields.model,
    ...routingOf(fields),
    stream: fields.stream ?? false,
    includeUsage: fields.stream_options?.include_usage ?? false,
    maxTokens: fields.max_tokens ?? DEFAULT_MAX_TOKENS,
    choices,
    // A prompt can be complete: the model then ends at once, and no other server would do more.
    hasStop: true,
    features: noFeatures,
    inputTokensBound: promptTextBytes + tokens + inputs * TOKENS_PER_PROMPT,
    longestInputTokensMin: longestTokensMin + fewestTokens(suffixBytes),
    promptText: () => [...(texts ?? []), ...(suffix === '' ? [] : Array(inputs).fill(suffix))].join('\n'),
    promptTextBytes,
    promptLength: undefined,
    mediaTokensBound: tokens,
    messageCount: inputs,
    sessionKey: null,
    forward,
    extraFields,
    droppedFields: droppedFields.filter(name => name !== 'echo' && name !== 'best_of'),
  }
}

const noFeatures: ReadonlySet<Feature> = new Set()

function choicesOf(prompts: number, perPrompt: number): number {
  const choices = prompts * perPrompt
  if (choices <= bounds.choices) return choices
  throw new ApiError('invalid_value', {
    param: 'n',
    message: `${prompts} prompts with "n" ${perPrompt} are ${choices} choices; the limit is ${bounds.choices}. Send fewer prompts.`,
  })
}

/** A server reads the suffix with each prompt. */
function refuseLongSuffix(promptTextBytes: number, prompts: number): void {
  const tokens = fewestTokens(promptTextBytes)
  if (tokens <= bounds.tokens) return
  throw new ApiError('invalid_value', {
    param: 'suffix',
    message: `The prompts, each with "suffix", must have at most ${bounds.tokens} tokens; ${prompts} have at least ${tokens}. Send fewer prompts or a shorter suffix.`,
  })
}

/** Refuses fields that make a server generate or send text that is not part of a choice. Their defaults are dropped. */
function refuseUnbilled({ echo, best_of: bestOf }: JsonObject, perPrompt: number): void {
  if (echo !== undefined && echo !== null && echo !== false) {
    const message = '"echo" must be false or left out: the answer has only generated text. Add the prompt yourself.'
    throw new ApiError('invalid_value', { param: 'echo', message })
  }
  if (bestOf !== undefined && bestOf !== null && bestOf !== perPrompt) {
    const message = '"best_of" must equal "n" or be left out: choices that are not sent cannot be billed.'
    throw new ApiError('invalid_value', { param: 'best_of', message })
  }
}
