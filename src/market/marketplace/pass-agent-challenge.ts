import type { Sql } from '../../base/db/pool.ts'
import { sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import { changeHosterState, gatewayActor } from './change-hoster-state.ts'
import { listWaiting } from './manifests.ts'
import { showHoster } from './show-hoster.ts'
import { enqueueProbes, enqueueVerification, notePassedChallenge, startVerification } from './verification.ts'

/** How long an agent may take from its connection to the announcement of its models, in seconds. */
const ANNOUNCING_S = 2

/**
 * Notes that the agent of a hoster has connected with a key of it, which is its proof, and goes on with the
 * verification: a hoster that has applied becomes `pending` and is checked, and models that wait for their probes are
 * probed. Call it in a transaction each time an agent connects. Does nothing for a hoster with an address.
 */
export async function passAgentChallenge(sql: Sql, endpointId: string, nowMs: number): Promise<void> {
  const { rows } = await sql.query<{ hosterId: string }>(
    `SELECT hoster_id AS "hosterId" FROM hoster JOIN hoster_endpoint USING (hoster_id) WHERE endpoint_id = $1 FOR UPDATE OF hoster`,
    [endpointId],
  )
  const [found] = rows
  if (found === undefined) return
  const { hosterId } = found
  const { transport, state } = await showHoster(sql, hosterId)
  if (transport !== 'agent') return
  await notePassedChallenge(sql, hosterId, nowMs)
  // Probes that failed while no agent was connected.
  if (state !== 'applied' && state !== 'pending') {
    if ((await listWaiting(sql, endpointId)).some(each => each.state === 'probing')) await enqueueProbes(sql, hosterId)
    return
  }
  await startVerification(sql, hosterId, nowMs)
  // The agent announces its models first.
  await enqueueVerification(sql, hosterId, ANNOUNCING_S)
  if (state === 'applied')
    await changeHosterState(sql, {
      ...gatewayActor,
      hosterId,
      to: 'pending',
      reason: sayOfHoster('hoster.agent_connected').text,
    })
}
