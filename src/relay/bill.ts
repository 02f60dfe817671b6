import { countPromptTokens } from '../dialects/chat/chat-request.ts'
import { estimateTokens } from '../dialects/tokens/estimate-tokens.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { TokenUsage } from '../domain/completion.ts'
import type { Answer, Outcome, Receipt, Ticket } from '../domain/handoff.ts'
import { costNanos, type Nanos } from '../domain/money.ts'
import type { Offer } from '../domain/offer.ts'

/** What the relay saw of an answer when it ended. */
export interface Delivered {
  readonly outcome: Outcome
  /** Everything the model generated and we received: content, reasoning, refusals, tool names and arguments. */
  readonly text: { readonly length: number; toString(): string }
  /** The upstream's last report, if it made one. */
  readonly reported: TokenUsage | null
  readonly finishReason: string | null
  /** The input is charged although no output came: the caller used up its free departures of the day. */
  readonly chargeInputOnly?: boolean
}

/**
 * Pure: turns what was delivered into what is billed. The table of docs/money.md, row by row:
 * - served, or left by the client in the middle: measured tokens;
 * - no output, interrupted, shut down: nothing;
 * - no report, or one that is 0 where there was something to report: our own count;
 * - a hoster that reports more than our count x 1.05 + 8 is billed at our count: it is paid by its report, so the report is
 *   evidence and not authority. Local and cloud servers are the operator's own choice and use tokenizers we may not have.
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

/** What the prompt alone costs there, by our own count. */
export function inputCostNanos(job: ChatJob, offer: Offer): Nanos {
  return costNanos(offer.price, countPromptTokens(job), 0)
}

interface Measured {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly source: Receipt['usageSource']
  /** By us; null where nothing made it necessary. */
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
  // No prompt has 0 tokens, and no text has: who reports so has not counted (auto_ai_router pull request 142).
  const reportedInput = reported?.prompt_tokens || null
  const reportedOutput = reported?.completion_tokens || null
  // Asked for twice at most, and long where the text is.
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
  /** By us; null where that was not necessary. */
  readonly counted: number | null
  readonly isOurs: boolean
}

/** 5 % and 8 tokens of slack cover honest differences between tokenizers and chat templates. */
function judged(reported: number | null, count: () => number, isHoster: boolean): Judged {
  if (reported !== null && !isHoster) return { tokens: reported, counted: null, isOurs: false }
  const counted = count()
  const isOurs = reported === null || reported > counted * 1.05 + 8
  return { tokens: isOurs ? counted : reported, counted, isOurs }
}

/**
 * Some report with the first chunk and again at the end: who leaves in between has received much more than was reported. The slack is that of
 * `OutputMeter`, for tokenizers that make fewer tokens of a text than ours.
 */
function isOutdated(reported: number | null, count: () => number): boolean {
  return reported !== null && count() > reported * 1.25 + 8
}
