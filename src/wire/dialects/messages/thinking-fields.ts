import type { Conversation, Effort, Turn } from '../../../base/domain/conversation.ts'
import type { ThinkingMode } from '../../../base/domain/offer.ts'

export interface ThinkingFields {
  thinking?: { type: 'adaptive' | 'enabled' | 'disabled'; budget_tokens?: number; display?: 'summarized' | 'omitted' }
  effort?: string
}

/** Budgets that read back as the same effort. */
const budgets: Readonly<Record<'low' | 'medium' | 'high', number>> = { low: 2_048, medium: 8_192, high: 24_576 }
const BUDGET_MIN = 1_024

/**
 * Returns the fields that ask for the effort of a conversation; none if the client named none. Anthropic refuses
 * thinking when a tool call is demanded, and with a budget when the model called a tool without having thought.
 */
export function thinkingFields(
  { reasoning: { effort, isShown }, toolChoice, tools }: Conversation,
  turns: readonly Turn[],
  { thinking: mode, maxTokens }: { readonly thinking: ThinkingMode; readonly maxTokens: number },
): ThinkingFields {
  if (mode === 'none') return {}
  const isForced = tools.length > 0 && (toolChoice?.kind === 'must' || toolChoice?.kind === 'only')
  if (effort === 'none') return { thinking: { type: 'disabled' } }
  if (effort === null && isShown === null) return {}
  const display = isShown === null ? {} : { display: isShown ? ('summarized' as const) : ('omitted' as const) }
  if (mode === 'adaptive') {
    const named = effort === null ? {} : { effort: effort === 'minimal' ? 'low' : effort }
    return isForced ? named : { thinking: { type: 'adaptive', ...display }, ...named }
  }
  const budget = Math.min(budgetOf(effort), maxTokens - 1)
  if (isForced || budget < BUDGET_MIN || calledWithoutThinking(turns)) return {}
  return { thinking: { type: 'enabled', budget_tokens: budget, ...display } }
}

function budgetOf(effort: Effort | null): number {
  if (effort === 'minimal' || effort === 'low') return budgets.low
  return effort === 'medium' || effort === null ? budgets.medium : budgets.high
}

/** True if the last turn of the assistant called a tool and does not begin with thinking that Anthropic sealed. */
function calledWithoutThinking(turns: readonly Turn[]): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant')
  if (last === undefined || !last.parts.some(({ kind }) => kind === 'tool_call')) return false
  const [first] = last.parts
  return first?.kind !== 'reasoning' || first.seal?.family !== 'anthropic'
}
