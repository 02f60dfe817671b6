import { t } from '@lingui/core/macro'
import type { OwnHoster } from '../../api/hoster-queries.ts'

export type HosterState = OwnHoster['state']

/** How a state looks, and what it means for the hoster. */
export const hosterStates: Readonly<Record<HosterState, { mark: 'ok' | 'warn' | 'danger' | 'off'; next: string }>> = {
  applied: { mark: 'warn', next: t`Finish the checklist: it leads to the first request.` },
  pending: { mark: 'warn', next: t`The gateway verifies the server, the models and the prices.` },
  verified: { mark: 'warn', next: t`Everything passed. The operator of this gateway approves it now.` },
  active: { mark: 'ok', next: t`It gets requests.` },
  paused: { mark: 'off', next: t`It gets no requests until you resume it.` },
  suspended: { mark: 'danger', next: t`It gets no requests. Only the operator can end that.` },
  retired: { mark: 'off', next: t`It has left for good.` },
}

/** The states before the first request. */
export function isJoining(state: HosterState): boolean {
  return state === 'applied' || state === 'pending' || state === 'verified'
}
