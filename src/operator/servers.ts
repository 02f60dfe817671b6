import type { Sql } from '../base/db/pool.ts'
import type { Offer } from '../base/domain/offer.ts'
import {
  answeredShare,
  attemptsOf,
  readServerHealth,
  type ServerHealth,
  UNUSED,
} from '../market/supply/status/server-health.ts'
import type { ShownServer } from '../wire/api/operator/overview.ts'

/** Returns every offer with its state over all nodes, in the order of the catalog. */
export async function listServers(sql: Sql, offers: readonly Offer[], nowMs: number): Promise<ShownServer[]> {
  const health = await readServerHealth(sql, nowMs)
  return offers.map(offer => ({
    endpoint_id: offer.endpoint.endpointId,
    name: offer.endpoint.name,
    provider: offer.endpoint.kind,
    model: offer.modelId,
    ...shownHealth(health.get(offer.offerId) ?? UNUSED),
  }))
}

type ShownHealth = Omit<ShownServer, 'endpoint_id' | 'name' | 'provider' | 'model'>

/** Shows the health of a server to an operator. */
function shownHealth({ lastError: error, ...health }: ServerHealth): ShownHealth {
  const { today } = health
  return {
    state: health.state,
    in_flight: health.inFlight,
    first_token_p50_ms: health.firstTokenMs,
    attempts_today: attemptsOf(today),
    answered_today: today.answered,
    failed_today: today.failed,
    busy_today: today.busy,
    ok_share: answeredShare(today),
    recent_attempts: attemptsOf(health.recent),
    recent_failed: health.recent.failed,
    customers_kept_away: health.customersKeptAway,
    attempted_at: health.attemptedAtMs === null ? null : new Date(health.attemptedAtMs).toISOString(),
    last_error: error && {
      at: new Date(error.atMs).toISOString(),
      outcome: error.outcome,
      status: error.status,
      text: error.text,
      request_id: error.requestId,
      customer_id: error.customerId,
    },
  }
}
