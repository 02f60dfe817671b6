import type { Settlement } from '../../money/ledger/settlement/settlement.ts'

/**
 * Returns why the offer that answered was chosen: `only_offer`, `failover` (others failed before), `conversation` (it
 * had served this conversation), a reason of `auto`, or the tier by which offers were ranked. A receipt has the whole
 * story.
 */
export function choiceReason({ routing, attempts }: Pick<Settlement, 'routing' | 'attempts'>): string {
  if (attempts.length > 1) return 'failover'
  if (routing === null || routing.ranked.length < 2) return 'only_offer'
  if (routing.isSticky) return 'conversation'
  return routing.auto?.reason ?? routing.constraints.tier ?? 'balanced'
}
