import { type Pool, transaction } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { HosterCaller } from '../../base/domain/hoster-access.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { StateActor } from '../marketplace/change-hoster-state.ts'
import { answerAppeal, appeal } from './appeals.ts'
import { endQuarantine } from './quarantine-hoster.ts'
import { showLiveTrust, showOwnTrust, showTrust } from './show-trust.ts'

/**
 * What hosters, customers and operators read and decide about trust. All methods reject with ApiError: `database_unavailable`,
 * `hoster_not_found`, and what they name.
 */
export interface TrustService {
  /** For everybody with a key: late and coarse. */
  show: (hosterId: string) => ReturnType<typeof showTrust>
  /** For the hoster itself: late and coarse too. */
  showOwn: (hosterId: string) => ReturnType<typeof showOwnTrust>
  /** For the operator: as it is now. */
  showLive: (hosterId: string) => Promise<LiveTrust>
  /** Rejects with `hoster_state_refused` without a quarantine, or while an appeal waits. */
  appeal(caller: HosterCaller, text: string, address: string | null): Promise<void>
  /**
   * Ends a quarantine, or keeps it; answers the waiting appeal with the reason. Rejects with `hoster_state_refused` if
   * it cannot end.
   */
  decide(
    hosterId: string,
    decision: { readonly decision: 'end' | 'keep'; readonly reason: string },
    by: StateActor,
  ): Promise<void>
}

type LiveTrust = Awaited<ReturnType<typeof showLiveTrust>> & {
  /** See recognisableModels. */
  readonly recognisable_models: readonly string[]
}

export interface TrustServiceDeps {
  readonly pool: Pool
  readonly clock: Clock
  /** Returns the models of a hoster of which it may recognise the audits. */
  readonly recognisableModels: (hosterId: string) => readonly string[]
}

export function createTrustService({ pool, clock, recognisableModels }: TrustServiceDeps): TrustService {
  return {
    show: hosterId => showTrust(pool, hosterId, clock.epochMs()).catch(refuseOutage),
    showOwn: hosterId => showOwnTrust(pool, hosterId, clock.epochMs()).catch(refuseOutage),
    showLive: async hosterId => ({
      ...(await showLiveTrust(pool, hosterId, clock.epochMs()).catch(refuseOutage)),
      recognisable_models: recognisableModels(hosterId),
    }),
    appeal: (caller, text, address) => transaction(pool, sql => appeal(sql, caller, text, address)).catch(refuseOutage),
    decide: (hosterId, { decision, reason }, by) =>
      transaction(pool, async sql => {
        const { personId, address } = by
        if (decision === 'end') await endQuarantine(sql, hosterId, { by, reason, nowMs: clock.epochMs() })
        await answerAppeal(sql, hosterId, { answer: reason, personId, address })
      }).catch(refuseOutage),
  }
}
