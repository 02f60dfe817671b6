import type { Pool } from '../base/db/pool.ts'
import { formerKeysMissing } from '../base/secrets/key-ring-state.ts'
import { type MasterKeys, markOf } from '../base/secrets/master-keys.ts'
import { countSealed, resealAll } from '../base/secrets/reseal.ts'
import { nameOfPlace } from '../base/secrets/sealed-places.ts'
import { waitForNodes } from '../base/secrets/wait-for-nodes.ts'
import { renewEvidence } from '../money/ledger/renew-evidence.ts'
import { Failure } from './failure.ts'
import { hostsOf, idOf } from './key-ring-names.ts'
import { evidenceOf } from './require-master-key.ts'

/** Seals again what is left. Throws Failure while a former key is needed. */
export async function requireNothingSealed(pool: Pool, keys: MasterKeys): Promise<void> {
  const current = markOf(keys.current)
  const lacking = await waitForNodes(pool, ({ marks }) => marks[0] === current, 10_000)
  if (lacking.length > 0)
    throw new Failure(
      `${hostsOf(lacking)} may still seal with a former key. Restart these nodes, or wait, and try again.`,
    )
  await resealAll({ pools: { gateway: pool, desk: pool }, keys })
  await renewEvidence(pool, evidenceOf(keys))
  const left = (await countSealed(pool, keys)).filter(({ former }) => former > 0)
  const { former: signed } = await renewEvidence(pool, evidenceOf(keys), { dryRun: true })
  const names = [
    ...left.map(({ place, former }) => `${former} in ${nameOfPlace(place)}`),
    ...(signed > 0 ? [`${signed} pieces of evidence of credit`] : []),
  ]
  if (names.length > 0)
    throw new Failure(`Former keys are still needed: ${names.join(', ')}. Nothing was changed. Try again.`)
}

/** Throws Failure while values cannot be opened here, and this machine lacks a former key that may open them. */
export async function requireNothingUnreadable(pool: Pool, keys: MasterKeys): Promise<void> {
  const missing = await formerKeysMissing(pool, keys)
  if (missing.length === 0) return
  const counts = (await countSealed(pool, keys)).filter(({ unknown }) => unknown > 0)
  const { invalid } = await renewEvidence(pool, evidenceOf(keys), { dryRun: true })
  const names = [
    ...counts.map(({ place, unknown }) => `${unknown} in ${nameOfPlace(place)}`),
    ...(invalid > 0 ? [`${invalid} pieces of evidence of credit`] : []),
  ]
  if (names.length > 0)
    throw new Failure(
      `This machine lacks ${missing.map(idOf).join(', ')}, which may have sealed ${names.join(', ')}. Run this where these keys are, or copy them from a backup. If they are lost for good, add --lost. Nothing was changed.`,
    )
}
