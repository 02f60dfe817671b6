import type { Sql } from '../db/pool.ts'
import { changeHosterState, gatewayActor } from './change-hoster-state.ts'
import { showHoster } from './show-hoster.ts'
import { enqueueVerification, notePassedChallenge, startVerification } from './verification.ts'

/**
 * Notes that the agent of a hoster has connected with a key of it, which is its proof, and goes on with the verification: a hoster that
 * has applied becomes `pending` and is checked. Call it in a transaction each time an agent connects. Does nothing for a hoster with
 * an address, or one that is beyond `pending`.
 */
export async function passAgentChallenge(sql: Sql, hosterId: string, nowMs: number): Promise<void> {
  await sql.query('SELECT FROM hoster WHERE hoster_id = $1 FOR UPDATE', [hosterId])
  const { transport, state } = await showHoster(sql, hosterId)
  if (transport !== 'agent') return
  await notePassedChallenge(sql, hosterId, nowMs)
  if (state !== 'applied' && state !== 'pending') return
  await startVerification(sql, hosterId, nowMs)
  await enqueueVerification(sql, hosterId)
  if (state === 'applied')
    await changeHosterState(sql, { ...gatewayActor, hosterId, to: 'pending', reason: 'The agent connected.' })
}
