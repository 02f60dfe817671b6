import { countPromptTokens } from '../dialects/tokens/count-prompt-tokens.ts'
import { estimateTokens } from '../dialects/tokens/estimate-tokens.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { TokenUsage } from '../domain/completion.ts'
import type { Answer, Outcome, Receipt, Ticket } from '../domain/handoff.ts'
import { costNanos, type Nanos, usd } from '../domain/money.ts'
import type { Offer } from '../domain/offer.ts'

/** What the relay has seen of an answer by its end. */
export interface Delivered {
  readonly outcome: Outcome
  /** Everything that the model generated and the gateway received: content, reasoning, refusals, tool names and arguments. */
  readonly text: { readonly length: number; toString(): string }
  /** The last usage report of the upstream. */
  readonly reported: TokenUsage | null
  readonly finishReason: string | null
  /** Charges the input although there was no output: the customer has used up its free early departures of the day. */
  readonly chargeInputOnly?: boolean
}

/**
 * Pure: computes what is billed for an answer. The rows of the table in docs/money.md:
 * - served, or left by the client mid-stream: measured tokens;
 * - no output, interrupted, shut down: nothing;
 * - no usage report, or a report of 0 for something that exists: the gateway's own count;
 * - a hoster that reports more than the gateway's count x 1.05 + 8: the gateway's count. A hoster is paid by its report, so the report is
 *   evidence, not authority. Local and cloud servers are the operator's own choice and use tokenizers that the gateway may not have.
 */
export function bill(ticket: Ticket, job: ChatJob, answer: Answer, delivered: Delivered): Receipt {
  const measured = measure(ticket, job, answer, delivered)
  const { reported } = delivered
  return {
    outcome: delivered.outcome,
    offer: answer.offer,
    attempts: answer.attempts,
    billedInputTokens: measured.inputTokens,
    billedOutputTokens: measured.outputTokens,
    reportedInputTokens: reported?.prompt_tokens ?? null,
    reportedOutputTokens: reported?.completion_tokens ?? null,
    countedInputTokens: measured.countedInput,
    countedOutputTokens: measured.countedOutput,
    usageSource: measured.source,
    finishReason: delivered.finishReason,
    firstTokenMs: answer.firstTokenMs,
  }
}

/** The cost of the prompt alone at this offer, by the gateway's own count. */
export function inputCostNanos(job: ChatJob, offer: Offer): Nanos {
  return costNanos(offer.price, countPromptTokens(job), 0)
}

interface Measured {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly source: Receipt['usageSource']
  /** The gateway's own count; null where the report made it unnecessary. */
  readonly countedInput: number | null
  readonly countedOutput: number | null
}

const nothing: Measured = { inputTokens: 0, outputTokens: 0, source: 'none', countedInput: null, countedOutput: null }

function measure(ticket: Ticket, job: ChatJob, answer: Answer, delivered: Delivered): Measured {
  const { outcome, reported, text } = delivered
  if (outcome !== 'served' && outcome !== 'client_gone') return nothing
  if (text.length === 0 && !(reported !== null && reported.completion_tokens > 0 && outcome === 'served')) {
    if (delivered.chargeInputOnly !== true) return nothing
    const countedInput = countPromptTokens(job)
    return { inputTokens: countedInput, outputTokens: 0, source: 'gateway', countedInput, countedOutput: 0 }
  }
  const isHoster = answer.offer.endpoint.kind === 'hoster'
  // No prompt and no text has 0 tokens: a server that reports 0 has not counted (auto_ai_router pull request 142).
  const reportedInput = reported?.prompt_tokens || null
  const reportedOutput = reported?.completion_tokens || null
  // Counting takes long for a long text, so the result is kept: it is needed up to twice.
  let countedOutput: number | undefined
  const countOutput = () => {
    countedOutput ??= estimateTokens(text.toString())
    return countedOutput
  }
  const input = judged(reportedInput, () => countPromptTokens(job), isHoster)
  const output = judged(
    outcome === 'client_gone' && isOutdated(reportedOutput, countOutput) ? null : reportedOutput,
    countOutput,
    isHoster,
  )
  return {
    inputTokens: Math.min(input.tokens, job.inputTokensBound),
    outputTokens: Math.min(output.tokens, ticket.maxTokens * job.choices),
    source: input.isOurs || output.isOurs ? 'gateway' : 'upstream',
    countedInput: input.counted,
    countedOutput: output.counted,
  }
}

interface Judged {
  readonly tokens: number
  /** The gateway's own count; null where the report made it unnecessary. */
  readonly counted: number | null
  readonly isOurs: boolean
}

/** The slack of 5 % and 8 tokens covers honest differences between tokenizers and chat templates. */
function judged(reported: number | null, count: () => number, isHoster: boolean): Judged {
  if (reported !== null && !isHoster) return { tokens: reported, counted: null, isOurs: false }
  const counted = count()
  const isOurs = reported === null || reported > counted * 1.05 + 8
  return { tokens: isOurs ? counted : reported, counted, isOurs }
}

/**
 * Some servers report usage with the first chunk and again at the end. A client that leaves in between has received much more than the first report
 * says. The slack is that of `OutputMeter`, for tokenizers that make fewer tokens of a text than the gateway's.
 */
function isOutdated(reported: number | null, count: () => number): boolean {
  return reported !== null && count() > reported * 1.25 + 8
}

/**
 * The usage that the client sees: the tokens that are billed, and the charge. The upstream's details (cached, reasoning) are kept, each at most
 * as large as the sum that it is part of, because clients subtract them.
 */
export function billedUsage(reported: TokenUsage | undefined, receipt: Receipt, costNanos: Nanos): TokenUsage {
  const { billedInputTokens, billedOutputTokens } = receipt
  const usage: TokenUsage = {
    ...reported,
    prompt_tokens: billedInputTokens,
    completion_tokens: billedOutputTokens,
    total_tokens: billedInputTokens + billedOutputTokens,
    cost_usd: usd(costNanos),
  }
  const { prompt_tokens_details: inputDetails, completion_tokens_details: outputDetails } = usage
  if (inputDetails) usage.prompt_tokens_details = atMost(inputDetails, billedInputTokens)
  if (outputDetails) usage.completion_tokens_details = atMost(outputDetails, billedOutputTokens)
  return usage
}

function atMost(counts: object, max: number): Record<string, number> {
  const bounded: Record<string, number> = {}
  for (const [name, count] of Object.entries(counts)) bounded[name] = Math.min(count, max)
  return bounded
}
