import type { TokenUsage } from './completion.ts'
import type { Answer, Attempt, Breach, Outcome } from './handoff.ts'
import { evenRatio, REPORT_SLACK, REPORT_SLACK_TOKENS } from './meter-ratio.ts'

/**
 * Returns the attempts of an answer, with the rules that the answer of a hoster broke. Broken rules lower the
 * conformance of its trust score. Local and cloud servers are the operator's choice.
 *
 * @param maxTokens what the server was asked for at most, over all choices
 * @param countedOutput the gateway's count of the delivered text; null where it did not count
 */
export function noteBreaches(
  { offer, attempts }: Answer,
  delivered: { readonly outcome: Outcome; readonly reported: TokenUsage | null; readonly isCut?: boolean },
  maxTokens: number,
  { countedOutput }: { readonly countedOutput: number | null },
): readonly Attempt[] {
  if (offer.endpoint.kind !== 'hoster' || delivered.outcome !== 'served') return attempts
  const ratio = (offer.meterRatio ?? evenRatio).output
  const exceeds =
    isAbove(delivered.reported?.completion_tokens, maxTokens) ||
    (delivered.isCut === true && isAbove((countedOutput ?? 0) * ratio, maxTokens))
  const named = delivered.reported?.answeredModel
  const found: Breach[] = exceeds ? ['max_tokens'] : []
  if (named !== undefined && !isSameModel(named, offer.upstreamModel)) found.push('model_id')
  const last = attempts.at(-1)
  return last === undefined || found.length === 0 ? attempts : [...attempts.slice(0, -1), { ...last, breaches: found }]
}

/** Tokenizers and the tokens that end an answer differ a little. */
function isAbove(tokens: number | undefined, maxTokens: number): boolean {
  return tokens !== undefined && tokens > maxTokens * REPORT_SLACK + REPORT_SLACK_TOKENS
}

/**
 * Whether an answer may give a model this name. Servers add an owner, a path, a version, a date or a file ending to the
 * requested id, or leave them out: one name must contain the other.
 */
function isSameModel(named: string, requested: string): boolean {
  const [a, b] = [plainName(named), plainName(requested)]
  return a.includes(b) || b.includes(a)
}

/** `/models/Qwen3-8B-Q4_K_M.gguf` and `qwen/qwen3:8b` become `qwen3-8b-q4-k-m` and `qwen3-8b`. */
function plainName(id: string): string {
  return id
    .toLowerCase()
    .replace(/^.*[\\/]/s, '')
    .replace(/\.gguf$|:latest$/, '')
    .replace(/[^a-z0-9.]+/g, '-')
}
