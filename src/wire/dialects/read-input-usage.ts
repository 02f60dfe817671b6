import type { TokenUsage } from '../../base/domain/completion.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import { readUsage } from './chat/read-usage.ts'

/**
 * Reads the usage report of an answer without generated tokens. Null if there is none, or if all its counts are 0.
 * Some servers report only the total.
 */
export function readInputUsage(usage: unknown): TokenUsage | null {
  if (!isJsonObject(usage)) return null
  return readUsage({ prompt_tokens: usage.prompt_tokens || usage.total_tokens }, false)
}
