import type { UsageParts } from '../../base/domain/answer-event.ts'
import { noteBreaches } from '../../base/domain/breaches.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import { type ChatChunk, type ChunkDelta, citedText, type TokenUsage } from '../../base/domain/completion.ts'
import type { Answer, Attempt, Outcome, Receipt, Ticket } from '../../base/domain/handoff.ts'
import { believedTokens, evenRatio } from '../../base/domain/meter-ratio.ts'
import { billedCost, type Nanos, usd } from '../../base/domain/money.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { billableInputTokens, outputCap, tokensWithSlack } from '../../base/domain/request-bounds.ts'
import type { MeasureText, TextLength } from '../../base/domain/text-length.ts'
import { usageParts } from '../../wire/dialects/chat/usage.ts'
import { countPromptTokens, estimateTokens, SHORT_TEXT_UNITS } from '../../wire/tokens/count-tokens.ts'

/** The facts about an ended answer that decide its bill. */
export interface Delivered {
  readonly outcome: Outcome
  /**
   * Everything that the model generated and the gateway received: content, reasoning, refusals, tool names and
   * arguments.
   */
  readonly text: { readonly length: number; toString(): string }
  /** The answer has audio, images, vectors or scores, which are output without text. */
  readonly hasMedia?: boolean
  /** The text was cut because it clearly exceeds the limit of output tokens. */
  readonly isCut?: boolean
  /** The last usage report of the upstream. */
  readonly reported: TokenUsage | null
  readonly finishReason: string | null
  /**
   * Charges the input although there was no output, because the customer has used up its free early departures
   * of the day.
   */
  readonly chargeInputOnly?: boolean
  /** The lengths of long texts. Long texts without a length are estimated. */
  readonly measured?: MeasuredTexts | undefined
}

/** Undefined where a text is short, or could not be measured in time. */
export interface MeasuredTexts {
  readonly prompt: TextLength | undefined
  readonly output: TextLength | undefined
}

/**
 * Computes what is billed for an answer, without side effects. The rows of the table in docs/money.md:
 * - served, or left by the client mid-stream: measured tokens;
 * - no output, whatever the report and the finish_reason: nothing. A hoster could otherwise sell its reports;
 * - interrupted, shut down: nothing;
 * - no usage report, or a report of 0 for a text that exists: the gateway's count;
 * - a hoster that reports more than the expected tokens x 1.05 + 8: the expected tokens, which are the gateway's
 *   count x the ratio that honest servers of the model report. A hoster is paid by its report, so its report alone is not
 *   trusted. Local and cloud servers are the operator's choice and use tokenizers that the gateway may not have.
 */
export function bill(ticket: Ticket, job: ChatJob, answer: Answer, delivered: Delivered): Receipt {
  const billed = countBilledTokens(ticket, job, answer, delivered)
  const { reported } = delivered
  return {
    outcome: delivered.outcome,
    offer: answer.offer,
    attempts: attemptsWithBreaches(ticket, job, answer, delivered, billed),
    billedInputTokens: billed.inputTokens,
    billedOutputTokens: billed.outputTokens,
    billedParts: billed.source === 'none' || reported === null ? null : billedParts(reported, billed),
    reportedInputTokens: reported?.prompt_tokens ?? null,
    reportedOutputTokens: reported?.completion_tokens ?? null,
    countedInputTokens: billed.countedInput,
    countedOutputTokens: billed.countedOutput,
    usageSource: billed.source,
    finishReason: delivered.finishReason,
    firstTokenMs: answer.firstTokenMs,
    upstreamTier: reported?.upstreamTier,
  }
}

/** Returns the cost of the prompt alone at this offer, by the gateway's count. */
export function inputCostNanos(job: ChatJob, offer: Offer, promptLength: TextLength | undefined): Nanos {
  return billedCost(offer.price, countPromptTokens(job, promptLength), 0, null).nanos
}

interface BilledTokens {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly source: Receipt['usageSource']
  /** The gateway's count; null where the report made it unnecessary. */
  readonly countedInput: number | null
  readonly countedOutput: number | null
}

const notBilled: BilledTokens = {
  inputTokens: 0,
  outputTokens: 0,
  source: 'none',
  countedInput: null,
  countedOutput: null,
}

function countBilledTokens(ticket: Ticket, job: ChatJob, answer: Answer, delivered: Delivered): BilledTokens {
  const { outcome, reported, text } = delivered
  const countInput = () => countPromptTokens(job, ticket.promptLength ?? delivered.measured?.prompt)
  if (outcome !== 'served' && outcome !== 'client_gone') return notBilled
  if (text.length === 0 && delivered.hasMedia !== true) {
    if (delivered.chargeInputOnly !== true) return notBilled
    const countedInput = countInput()
    return { inputTokens: countedInput, outputTokens: 0, source: 'gateway', countedInput, countedOutput: 0 }
  }
  const { endpoint, meterRatio } = answer.offer
  const ratio = endpoint.kind === 'hoster' ? (meterRatio ?? evenRatio) : null
  // Every prompt and every text has at least one token: a server that reports 0 has not counted
  // (auto_ai_router pull request 142).
  const reportedInput = reported?.prompt_tokens || null
  const reportedOutput = reported?.completion_tokens || null
  // Counting a long text is slow, so the result is cached: it is needed up to twice.
  let countedOutput: number | undefined
  const countOutput = () => {
    countedOutput ??= delivered.measured?.output?.tokens ?? estimateTokens(text.toString())
    return countedOutput
  }
  const input = chooseCount(reportedInput, countInput, ratio?.input)
  const output =
    job.choices === 0
      ? noOutput
      : chooseCount(
          outcome === 'client_gone' && isOutdated(reportedOutput, countOutput) ? null : reportedOutput,
          countOutput,
          ratio?.output,
        )
  // The ratio of a model is learned from local servers too, by the counts of a sample of their answers.
  const isSample =
    ratio === null && meterRatio !== undefined && endpoint.kind === 'local' && isSampled(ticket, job, delivered)
  return {
    inputTokens: Math.min(input.tokens, billableInputTokens(answer.offer, job)),
    outputTokens: Math.min(output.tokens, outputCap(answer.offer, job, ticket.maxTokens) * job.choices),
    source: input.isGatewayCount || output.isGatewayCount ? 'gateway' : 'upstream',
    countedInput: isSample ? countInput() : input.counted,
    countedOutput: isSample ? countOutput() : output.counted,
  }
}

/** Only hosters have a trust score that broken rules could lower. */
function attemptsWithBreaches(
  { maxTokens }: Ticket,
  job: ChatJob,
  answer: Answer,
  delivered: Delivered,
  billed: BilledTokens,
): readonly Attempt[] {
  const { offer, attempts } = answer
  if (offer.endpoint.kind !== 'hoster') return attempts
  return noteBreaches(answer, delivered, outputCap(offer, job, maxTokens) * job.choices, billed)
}

/**
 * One answer in 16, by the last hexadecimal digit of its id, which is random. Only short texts: counting them takes
 * microseconds.
 */
function isSampled({ requestId }: Ticket, job: ChatJob, { outcome, text, reported }: Delivered): boolean {
  if (outcome !== 'served' || reported === null || !requestId.endsWith('0')) return false
  return job.promptTextBytes <= SHORT_TEXT_UNITS && text.length <= SHORT_TEXT_UNITS
}

/**
 * Returns the billed tokens in parts; null when all are fresh text. A report without prompt tokens has not counted
 * the prompt, so its cached tokens are not believed either.
 */
function billedParts(reported: TokenUsage, { inputTokens, outputTokens }: BilledTokens): UsageParts | null {
  const { prompt_tokens_details: inputDetails, completion_tokens_details: outputDetails } = reported
  if (inputDetails === undefined && outputDetails === undefined) return null
  const parts = usageParts({
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
    prompt_tokens_details: reported.prompt_tokens > 0 ? inputDetails : undefined,
    completion_tokens_details: outputDetails,
  })
  const { inputAudioTokens, inputImageTokens, outputAudioTokens, outputImageTokens } = parts
  const hasMedia = (inputAudioTokens ?? inputImageTokens ?? outputAudioTokens ?? outputImageTokens) !== undefined
  return parts.freshTokens < inputTokens || (parts.reasoningTokens ?? 0) > 0 || hasMedia ? parts : null
}

interface ChosenCount {
  readonly tokens: number
  /** The gateway's count; null where the report made it unnecessary. */
  readonly counted: number | null
  readonly isGatewayCount: boolean
}

/** The output of a task that generates no text. */
const noOutput: ChosenCount = { tokens: 0, counted: null, isGatewayCount: false }

/**
 * Chooses the upstream's report or the gateway's count.
 *
 * @param ratio how many tokens honest servers report for one that the gateway counts; undefined: the report is believed
 */
function chooseCount(reported: number | null, count: () => number, ratio: number | undefined): ChosenCount {
  if (reported !== null && ratio === undefined) return { tokens: reported, counted: null, isGatewayCount: false }
  const counted = count()
  if (reported === null || ratio === undefined) return { tokens: counted, counted, isGatewayCount: true }
  const { tokens, isOverReport } = believedTokens(reported, counted, ratio)
  return { tokens, counted, isGatewayCount: isOverReport }
}

/**
 * Some servers report usage with the first chunk and again at the end. A client that leaves in between has
 * received much more than the first report covers.
 */
function isOutdated(reported: number | null, count: () => number): boolean {
  return reported !== null && count() > tokensWithSlack(reported)
}

/**
 * Returns the usage that the client sees: the billed tokens and the charge. Cached and written tokens are those that
 * were billed as such. Other details of the upstream (reasoning) are capped at the sum that they belong to, because
 * clients subtract them.
 */
export function billedUsage(reported: TokenUsage | undefined, receipt: Receipt, costNanos: Nanos): TokenUsage {
  const { billedInputTokens, billedOutputTokens, billedParts: parts } = receipt
  const usage: TokenUsage = {
    ...reported,
    prompt_tokens: billedInputTokens,
    completion_tokens: billedOutputTokens,
    total_tokens: billedInputTokens + billedOutputTokens,
    cost_usd: usd(costNanos),
  }
  if (usage.upstreamTier !== undefined) delete usage.upstreamTier
  if (usage.answeredModel !== undefined) delete usage.answeredModel
  const { prompt_tokens_details: inputDetails, completion_tokens_details: outputDetails } = usage
  if (inputDetails) {
    const details = capCounts(inputDetails, billedInputTokens)
    if (details.cached_tokens !== undefined) details.cached_tokens = parts?.cacheReadTokens ?? 0
    if (details.cache_write_tokens !== undefined) {
      details.cache_write_tokens = (parts?.cacheWriteTokens ?? 0) + (parts?.cacheWriteLongTokens ?? 0)
    }
    usage.prompt_tokens_details = details
  }
  if (outputDetails) usage.completion_tokens_details = capCounts(outputDetails, billedOutputTokens)
  return usage
}

function capCounts(counts: object, max: number): Record<string, number> {
  const bounded: Record<string, number> = {}
  for (const [name, count] of Object.entries(counts)) bounded[name] = Math.min(count, max)
  return bounded
}

/**
 * Measures the long texts that `bill` counts: those of hosters, and those without a report. Returns undefined
 * when there are none, which is the usual case.
 */
export function measureLongTexts(
  measureText: MeasureText,
  ticket: Ticket,
  job: ChatJob,
  { offer }: Answer,
  { outcome, reported, text, hasMedia, chargeInputOnly }: Delivered,
): Promise<MeasuredTexts> | undefined {
  if (outcome !== 'served' && outcome !== 'client_gone') return undefined
  if (text.length === 0 && !hasMedia && !chargeInputOnly) return undefined
  const isCounted = offer.endpoint.kind === 'hoster' || outcome === 'client_gone'
  const needsPrompt =
    ticket.promptLength === undefined &&
    job.promptTextBytes > SHORT_TEXT_UNITS &&
    (isCounted || !reported?.prompt_tokens)
  const needsOutput = text.length > SHORT_TEXT_UNITS && (isCounted || !reported?.completion_tokens)
  if (!needsPrompt && !needsOutput) return undefined
  const { customerId } = ticket.caller
  const measure = async (isNeeded: boolean, textOf: () => string) =>
    isNeeded ? ((await measureText(textOf(), customerId)) ?? undefined) : undefined
  return Promise.all([measure(needsPrompt, job.promptText), measure(needsOutput, () => text.toString())]).then(
    ([prompt, output]) => ({ prompt, output }),
  )
}

/** Returns the generated text of a whole answer, all choices joined. */
export function generatedText(messages: readonly ChunkDelta[]): string {
  let all = ''
  for (const message of messages) {
    eachGeneratedText(message, text => {
      all += text
    })
  }
  return all
}

/**
 * Passes every generated text of a delta or message to `onText`: reasoning, content, refusal, names and
 * arguments of tool calls, the transcript of audio. `TextCutter` takes them in the same order.
 */
export function eachGeneratedText(delta: ChunkDelta, onText: OnGeneratedText): void {
  const { content, reasoning_content, reasoning, refusal } = delta
  // Some servers send one reasoning under both names.
  if (isText(reasoning_content)) onText(reasoning_content, 'reasoning')
  else if (isText(reasoning)) onText(reasoning, 'reasoning')
  if (isText(content)) onText(content, 'content')
  if (isText(refusal)) onText(refusal, 'refusal')
  // The older form of a tool call, which some servers still send.
  const { function_call: call, audio } = delta as { function_call?: Call | null; audio?: Audio | null }
  if (call) eachCallText(call, onText)
  if (typeof audio?.transcript === 'string') onText(audio.transcript, 'audio')
  if (delta.tool_calls) {
    for (const [at, call] of delta.tool_calls.entries()) {
      const index = call.index ?? at
      eachCallText(call.function, onText, index)
      eachCallText(call.custom as Call | undefined, onText, index)
    }
  }
}

/** @param call the index of the call that the text belongs to; undefined: of no call, or of one of the older form */
export type OnGeneratedText = (
  text: string,
  part: 'reasoning' | 'content' | 'refusal' | 'audio' | 'name' | 'arguments',
  call?: number,
) => void

/** True if a delta or message carries audio or images. */
export function hasMedia(delta: ChunkDelta): boolean {
  const { audio, images } = delta as { audio?: Audio | null; images?: unknown }
  return (typeof audio?.data === 'string' && audio.data !== '') || (Array.isArray(images) && images.length > 0)
}

/** The fields of a delta that `eachGeneratedText` and `hasMedia` know. */
const countedFields: ReadonlySet<string> = new Set([
  ...['role', 'content', 'reasoning_content', 'reasoning', 'refusal', 'tool_calls', 'function_call'],
])
const countedCallFields: ReadonlySet<string> = new Set(['index', 'id', 'type', 'function', 'custom'])

/** True if a chunk has fields that are passed on and not counted as text. */
export function hasOtherFields({ choices }: ChatChunk): boolean {
  for (const { delta, logprobs } of choices) {
    if (logprobs !== undefined || delta[citedText] !== undefined) return true
    for (const key in delta) if (!countedFields.has(key)) return true
    if (!delta.tool_calls) continue
    for (const call of delta.tool_calls) for (const key in call) if (!countedCallFields.has(key)) return true
  }
  return false
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

type Call = { name?: unknown; arguments?: unknown; input?: unknown }
type Audio = { data?: unknown; transcript?: unknown }

/** Upstreams send values of any type as names and arguments; only strings are generated text. */
function eachCallText(call: Call | null | undefined, onText: OnGeneratedText, index?: number): void {
  if (typeof call?.name === 'string') onText(call.name, 'name', index)
  if (typeof call?.arguments === 'string') onText(call.arguments, 'arguments', index)
  if (typeof call?.input === 'string') onText(call.input, 'arguments', index)
}
